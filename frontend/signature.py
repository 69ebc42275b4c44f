"""The signature of an exported program: names, types, dynamic sizes, nesting."""

import inspect
import math
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    OutputKind,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from torch.utils import _pytree as torch_pytree

from lemurc import pytree
from lemurc.errors import UnsupportedModelError
from lemurc.frontend.arrays import dtype_name
from lemurc.frontend.program import Signature
from lemurc.manifest import SymbolicDim, TensorSpec


class _Leaf:
    """Stands for a tensor while torch's description of a call becomes ours."""


class _Number(_Leaf):
    """Stands for a Python number that depends on sizes or values."""


NUMBERS: dict[type[Any], str] = {
    SymBoolArgument: "bool",
    SymFloatArgument: "float64",
    SymIntArgument: "int64",
}


def signature_of(program: ExportedProgram, module: Any = None) -> Signature:
    """`module` is the nn.Module exported; it gives the names of positional arguments."""
    signature = program.graph_signature
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    inputs = [spec for spec in signature.input_specs if spec.kind is InputKind.USER_INPUT]
    outputs = [spec for spec in signature.output_specs if spec.kind is OutputKind.USER_OUTPUT]
    in_tree = _describe(program.call_spec.in_spec, [spec.arg for spec in inputs], "argument")
    out_tree = _describe(program.call_spec.out_spec, [spec.arg for spec in outputs], "result")
    ranges = program.range_constraints
    return Signature(
        inputs=_tensor_specs([spec.arg for spec in inputs], values, ranges, None),
        outputs=_tensor_specs(
            [spec.arg for spec in outputs], values, ranges, _leaf_names(out_tree)
        ),
        in_tree=in_tree,
        out_tree=out_tree,
        argument_names=argument_names(module),
        argument_defaults=argument_defaults(module),
    )


def updated_inputs(program: ExportedProgram) -> tuple[int, ...]:
    """Inputs that a call changes in place, as a decomposed program says."""
    positions = input_positions(program)
    return tuple(
        sorted(
            positions[str(spec.target)]
            for spec in program.graph_signature.output_specs
            if spec.kind is OutputKind.USER_INPUT_MUTATION
        )
    )


def _describe(spec: Any, arguments: list[Any], what: str) -> pytree.Tree:
    leaves: list[Any] = []
    for argument in arguments:
        number = type(argument) in NUMBERS
        if number and what == "argument":
            raise UnsupportedModelError(
                "a Python number that differs from call to call is not supported as an argument",
                code="dynamic-integer-argument",
                where=argument.name,
                hint="make the argument a tensor: torch.tensor(n), and read it with .item()",
            )
        constant = isinstance(argument, ConstantArgument)
        leaves.append(argument.value if constant else _Number() if number else _Leaf())
    value = torch_pytree.tree_unflatten(leaves, spec)
    try:
        return pytree.describe(
            value,
            lambda node: isinstance(node, _Leaf),
            is_number=lambda node: isinstance(node, _Number),
        )[1]
    except TypeError as error:
        raise UnsupportedModelError(
            f"the model's {what}s hold something that is no tensor or plain container: {error}",
            code=f"{what}-structure",
            hint="wrap the model so that it takes and returns tensors in lists, tuples, "
            "dicts or dataclasses; for a Hugging Face model set config.use_cache = False",
        ) from error


def _tensor_specs(
    arguments: list[Any], values: dict[str, Any], ranges: Any, names: list[str] | None
) -> tuple[TensorSpec, ...]:
    specs: list[TensorSpec] = []
    for argument in arguments:
        if isinstance(argument, TensorArgument):
            value = values[argument.name]
            name = argument.name if names is None else names[len(specs)]
            shape = tuple(_dimension(size, ranges) for size in value.shape)
            specs.append(TensorSpec(name, dtype_name(value.dtype), shape))
        elif type(argument) in NUMBERS:
            name = argument.name if names is None else names[len(specs)]
            specs.append(TensorSpec(name, NUMBERS[type(argument)], ()))
    return tuple(specs)


def _leaf_names(tree: pytree.Tree) -> list[str]:
    """`logits` or `layers.0` by where a result stands; `output2` when it has no key."""
    names: list[str] = []

    def walk(node: pytree.Tree, path: tuple[str, ...], *, named: bool) -> None:
        if node["kind"] in ("leaf", "number"):
            names.append(".".join(path) if named else f"output{len(names)}")
        items = node.get("items", [])
        for key, item in zip(node.get("keys", range(len(items))), items, strict=True):
            walk(item, (*path, str(key)), named=named or "keys" in node)

    walk(tree, (), named=False)
    return names


def input_positions(program: ExportedProgram) -> dict[str, int]:
    """The flat index of each tensor the caller passes, by the name of its placeholder."""
    names = [
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT and isinstance(spec.arg, TensorArgument)
    ]
    return {name: position for position, name in enumerate(names)}


def largest_size(size: int | torch.SymInt, ranges: Any) -> int | None:
    """The declared maximum; None where there is none."""
    dimension = _dimension(size, ranges)
    return dimension if isinstance(dimension, int) else dimension.max


def _dimension(size: int | torch.SymInt, ranges: Any) -> int | SymbolicDim:
    if isinstance(size, int):
        return size
    expression = size.node.expr
    if expression.is_number:
        return int(expression)
    environment = size.node.shape_env
    bounds = environment.bound_sympy(expression)
    known = ranges.get(expression)
    lower, upper = (known.lower, known.upper) if known is not None else (bounds.lower, bounds.upper)
    coefficient = expression.as_coeff_Mul()[0]
    return SymbolicDim(
        symbol=_spelled(expression, environment),
        min=int(lower),
        max=int(upper) if upper.is_Integer else None,
        multiple_of=int(coefficient) if coefficient.is_Integer and coefficient > 1 else 1,
    )


def _spelled(expression: Any, environment: Any) -> str:
    """The expression in the names the user gave with torch.export.Dim, else PyTorch's."""
    text = str(expression)
    for symbol in sorted(expression.free_symbols, key=lambda s: -len(str(s))):
        for source in environment.var_to_sources.get(symbol, ()):
            # a size that is only ever used multiplied has its own name as its source
            own = getattr(source, "source_name", None)
            given = own or environment.source_name_to_debug_name.get(_source_name(source))
            if given and given.isidentifier():
                text = text.replace(str(symbol), given)
                break
    return text


def _source_name(source: Any) -> str:
    name = source.name
    return str(name() if callable(name) else name)


def argument_names(module: Any) -> tuple[str, ...]:
    """Positional parameters of `module.forward`; none for what is no nn.Module."""
    forward = getattr(module, "forward", None)
    if forward is None:
        return ()
    if isinstance(module, torch.jit.ScriptModule):
        return tuple(argument.name for argument in forward.schema.arguments[1:])
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(forward).parameters.values()
    return tuple(parameter.name for parameter in parameters if parameter.kind in positional)


def argument_defaults(module: Any) -> dict[str, Any]:
    """Parameters of `module.forward` whose default is a constant, and that constant."""
    forward = getattr(module, "forward", None)
    if forward is None or isinstance(module, torch.jit.ScriptModule):
        return {}
    return {
        name: parameter.default
        for name, parameter in inspect.signature(forward).parameters.items()
        if isinstance(parameter.default, pytree.CONSTANTS)
        and (not isinstance(parameter.default, float) or math.isfinite(parameter.default))
    }
