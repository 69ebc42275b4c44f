"""nn.Module or ExportedProgram to a Program."""

import dataclasses
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as torch_pytree

from lemurc.errors import UnsupportedModelError, UsageError
from lemurc.frontend.arrays import to_array
from lemurc.frontend.complex_pairs import expand_complex
from lemurc.frontend.control_flow import unroll_control_flow
from lemurc.frontend.decompositions import decomposition_table
from lemurc.frontend.importer import import_programs
from lemurc.frontend.program import Program
from lemurc.frontend.quiet import quiet_torch
from lemurc.frontend.random_numbers import draws, random_results
from lemurc.frontend.recurrent import loops_for_recurrent_layers
from lemurc.frontend.reference import eager_reference
from lemurc.frontend.shape_guards import count_guards, require_no_new_guards
from lemurc.frontend.signature import signature_of, updated_inputs
from lemurc.frontend.ties import names_places
from lemurc.frontend.transforms import is_transform_error, lost_values, recorded
from lemurc.frontend.user_code import raised_by_user, raising_line, said
from lemurc.frontend.weights import WeightStore

_ADVICE = (
    "Caused by:",
    "For more information, run with TORCH_LOGS",
    "For extended logs",
    "For more debugging help",
    "For C++ stack trace",
    "If you suspect the guard was triggered from C++",
    "The error above occurred when calling torch.export",
    "consider using data-dependent friendly APIs",
)


@dataclass(frozen=True)
class EntryPoint:
    """A model and an example call; `dynamic_shapes` as torch.export takes them."""

    model: torch.nn.Module | ExportedProgram
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    dynamic_shapes: Any = None


def program_from_torch(entry_points: dict[str, EntryPoint], name: str) -> Program:
    """One module and one store of weights and state for all entry points."""
    with quiet_torch():
        return _program(entry_points, name)


def _program(entry_points: dict[str, EntryPoint], name: str) -> Program:
    exported = {key: export(entry) for key, entry in entry_points.items()}
    decomposed = {key: decompose(program) for key, program in exported.items()}
    store = WeightStore()
    signatures, references, examples = {}, {}, {}
    for key, program in exported.items():
        module = entry_points[key].model
        eager = program.module() if isinstance(module, ExportedProgram) else module
        named = None if isinstance(module, ExportedProgram) else module
        signatures[key] = dataclasses.replace(
            signature_of(program, named), input_updates=updated_inputs(decomposed[key])
        )
        tree = signatures[key]
        updates = signatures[key].input_updates
        references[key] = eager_reference(
            eager,
            tree.in_tree,
            tree.out_tree,
            updates,
            stable_ties=names_places(program.graph),
        )
        examples[key] = _example(program, entry_points[key])
    random = {key: random_results(p) for key, p in decomposed.items() if draws(p)}
    mlir, guards = import_programs(decomposed, store)
    signatures = {
        key: dataclasses.replace(
            signature, input_ranges=guards[key].ranges, checks=guards[key].messages
        )
        for key, signature in signatures.items()
    }
    return Program(
        name=name,
        mlir=mlir,
        functions=signatures,
        weights=store.arrays(),
        state=store.state,
        reference=references,
        examples=examples,
        exported=exported,
        random=random,
    )


def export(entry: EntryPoint) -> ExportedProgram:
    """torch.export, its failures in our words."""
    if isinstance(entry.model, ExportedProgram):
        return entry.model
    if not isinstance(entry.model, torch.nn.Module):
        raise UsageError(
            f"the model is of type {type(entry.model).__name__}, not an nn.Module",
            code="not-a-module",
            hint="wrap a function in an nn.Module whose forward calls it",
        )
    if isinstance(entry.model, torch.jit.ScriptModule):
        return _from_torchscript(entry.model, entry)
    _require_examples(entry.model, entry)
    _register_dataclasses((entry.args, dict(entry.kwargs)))
    try:
        exported = _export(entry.model, entry)
        return _export(_recorded(entry), entry) if lost_values(exported) else exported
    except UnsupportedModelError:
        raise
    except Exception as error:
        if is_transform_error(error) and not entry.dynamic_shapes:
            return _exported_after_recording(entry)
        raise _untraceable(error) from error


def _untraceable(error: Exception) -> UnsupportedModelError:
    """What the user's forward raised, or why torch.export cannot follow it."""
    if raised_by_user(error):
        message = f"the model's forward raised {said(error)}"
        hint = "call it in eager mode first; `lemurc --debug ...` shows the whole traceback"
    else:
        message = f"torch.export cannot trace the model: {_first_lines(error)}"
        hint = "see https://docs.pytorch.org/docs/stable/export.html for what it accepts"
    if "data-dependent" in message:
        hint = (
            "what Python does here depends on the values of a tensor: use torch.where, or "
            "torch.cond, or pass the value as a Python number"
        )
    return UnsupportedModelError(
        message, code="export-failed", where=raising_line(error), hint=hint
    )


def _export(model: torch.nn.Module, entry: EntryPoint) -> ExportedProgram:
    with torch.no_grad(), loops_for_recurrent_layers():
        return torch.export.export(
            model,
            entry.args,
            dict(entry.kwargs),
            dynamic_shapes=entry.dynamic_shapes,
            strict=False,
        )


def _recorded(entry: EntryPoint) -> torch.nn.Module:
    assert isinstance(entry.model, torch.nn.Module)
    if entry.dynamic_shapes:
        raise UnsupportedModelError(
            "a model that differentiates inside forward cannot have dynamic sizes",
            code="gradient-dynamic",
            hint="compile it without dynamic shapes",
        )
    with torch.no_grad():
        return recorded(entry.model, entry.args, entry.kwargs)


def _exported_after_recording(entry: EntryPoint) -> ExportedProgram:
    try:
        return _export(_recorded(entry), entry)
    except UnsupportedModelError:
        raise
    except Exception as error:
        raise UnsupportedModelError(
            f"torch.export cannot trace the gradients in the model: {_first_lines(error)}",
            code="export-failed",
            hint="compute gradients outside of the compiled module",
        ) from error


def _from_torchscript(model: torch.jit.ScriptModule, entry: EntryPoint) -> ExportedProgram:
    from torch._export.converter import TS2EPConverter

    if not entry.args and not entry.kwargs:
        raise _no_example("a TorchScript archive")
    try:
        # the converter makes sizes dynamic at will: export what it made once more
        converted = TS2EPConverter(model, entry.args, dict(entry.kwargs)).convert()
        return torch.export.export(
            converted.module(),
            entry.args,
            dict(entry.kwargs),
            dynamic_shapes=entry.dynamic_shapes,
            strict=False,
        )
    except Exception as error:
        raise UnsupportedModelError(
            f"PyTorch cannot convert this TorchScript model: {_first_lines(error)}",
            code="torchscript",
            hint="export the original PyTorch model with torch.export.save",
        ) from error


def _require_examples(model: torch.nn.Module, entry: EntryPoint) -> None:
    if entry.args or entry.kwargs:
        return
    parameters = inspect.signature(model.forward).parameters.values()
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if any(p.default is p.empty and p.kind not in variadic for p in parameters):
        raise _no_example(f"{type(model).__name__}.forward")


def _no_example(what: str) -> UsageError:
    return UsageError(
        f"{what} needs an example call",
        code="example-missing",
        hint="give each tensor: --input 1x3x224x224xf32, or --input name=1x16xi64",
    )


def _register_dataclasses(value: Any) -> None:
    """torch.export takes only dataclasses it was told about."""
    if isinstance(value, Mapping):
        children = list(value.values())
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        children = [getattr(value, item.name) for item in dataclasses.fields(value)]
        if type(value) not in torch_pytree.SUPPORTED_NODES:
            torch.export.register_dataclass(type(value))
    elif isinstance(value, (list, tuple)):
        children = list(value)
    else:
        return
    for child in children:
        _register_dataclasses(child)


def decompose(program: ExportedProgram) -> ExportedProgram:
    """Into operators that torch-mlir lowers or that become composites."""
    try:
        with torch.no_grad():
            unrolled = unroll_control_flow(program)
            guards = count_guards(unrolled)
            table = decomposition_table(unrolled)
            decomposed: ExportedProgram = unrolled.run_decompositions(table)
            if expand_complex(decomposed):
                decomposed = decomposed.run_decompositions(table)
            require_no_new_guards(decomposed, guards)
            return decomposed
    except UnsupportedModelError:
        raise
    except Exception as error:
        raise UnsupportedModelError(
            f"PyTorch cannot decompose the exported program: {_first_lines(error)}",
            code="decomposition-failed",
            hint="buffers that share memory, or views of one another, are a common cause: "
            "give each its own with .clone()",
        ) from error


def _first_lines(error: Exception, count: int = 6) -> str:
    """PyTorch's message without its advice to those who debug PyTorch."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    lines = [line for line in lines if not line.strip().startswith(_ADVICE)]
    return "\n".join(lines[:count]) or type(error).__name__


def _example(program: ExportedProgram, entry: EntryPoint) -> list[Any]:
    call = (entry.args, dict(entry.kwargs))
    if isinstance(entry.model, ExportedProgram) and not entry.args and not entry.kwargs:
        if program.example_inputs is None:
            return []
        call = program.example_inputs
    leaves = torch_pytree.tree_leaves(call)
    return [to_array(leaf.clone()) for leaf in leaves if isinstance(leaf, torch.Tensor)]
