"""Read a model in, whatever it comes as."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lemurc.errors import UnsupportedModelError, UsageError
from lemurc.frontend.formats import BUILD_HINT, Format, detect, refuse_damaged_archive
from lemurc.frontend.program import Program
from lemurc.pytree import Tree


def load(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    inputs: Sequence[str] = (),
    dynamic: Sequence[str] = (),
    trust_pickle: bool = False,
    model_factory: str | None = None,
) -> Program:
    """The program of a model and an example call.

    `model`: an nn.Module, an ExportedProgram, a dict of entry points
    `{name: (model, args)}` or `{name: (model, args, kwargs)}`, or a path in one of the
    formats of formats.py, or `file.py:factory`. `inputs` and `dynamic` are the command
    line's spelling of the example call and of `dynamic_shapes` (see inputs.py). With
    `model_factory`, a `file.py:factory`, the path holds only weights for what it builds.
    """
    plain_results = False
    if model_factory is not None:
        from lemurc.frontend.factory import call_factory
        from lemurc.frontend.state_dict import load_state_dict

        name = Path(model).stem
        factory_path, _, factory = _split(model_factory)
        found, found_args, found_kwargs = _parts(call_factory(factory_path, factory or "build"))
        load_state_dict(found, Path(model))
    elif isinstance(model, (str, Path)):
        path, _, factory = _split(str(model))
        name = path.stem or "model"
        if not factory:
            format_ = detect(path, str(model))
            if format_ is Format.MLIR:
                from lemurc.frontend.mlir_file import load_mlir

                return load_mlir(path)
            if format_ is Format.ONNX:
                from lemurc.frontend.onnx.load import load_onnx

                if dynamic_shapes is not None:
                    raise UsageError(
                        "an ONNX model names its dynamic sizes itself",
                        code="bad-dynamic-spec",
                        hint='bound them with dynamic=("ids.1=seq:1..512",), as --dynamic does',
                    )
                args, kwargs = _example(args, kwargs, inputs)
                return load_onnx(path, args, kwargs, dynamic)
            plain_results = format_ is Format.HUGGING_FACE
            found, found_args, found_kwargs = _read(path, format_, trust_pickle=trust_pickle)
        else:
            from lemurc.frontend.factory import call_factory

            found, found_args, found_kwargs = _parts(call_factory(path, factory))
    else:
        found, found_args, found_kwargs = model, (), {}
        name = type(model).__name__
    args, kwargs = _example(args, kwargs, inputs)
    if not args and not kwargs:
        args, kwargs = found_args, found_kwargs
    program = _program(found, tuple(args), dict(kwargs), dynamic_shapes, list(dynamic), name)
    return _with_plain_results(program) if plain_results else program


def _example(
    args: Any, kwargs: Mapping[str, Any] | None, inputs: Sequence[str]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The example call as given in Python, or in the spelling of the command line."""
    if inputs:
        from lemurc.frontend.inputs import parse_inputs

        return parse_inputs(list(inputs))
    args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    return args, dict(kwargs or {})


def _with_plain_results(program: Program) -> Program:
    """Results as dicts: whoever runs the artifact need not have transformers."""

    def plain(tree: Tree) -> Tree:
        items = {"items": [plain(item) for item in tree["items"]]} if "items" in tree else {}
        if tree["kind"] == "record" and tree["base"] == "mapping":
            return {"kind": "dict", "keys": tree["keys"]} | items
        return tree | items

    functions = {
        key: dataclasses.replace(signature, out_tree=plain(signature.out_tree))
        for key, signature in program.functions.items()
    }
    return dataclasses.replace(program, functions=functions)


def _split(model: str) -> tuple[Path, str, str]:
    """`dir/file.py:factory` in its parts; other paths may hold colons."""
    head, colon, factory = model.rpartition(":")
    if colon and head.endswith(".py") and factory.isidentifier():
        return Path(head), colon, factory
    return Path(model), "", ""


def _parts(made: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A factory's result: module, (module, args), (module, args, kwargs) or entry points."""
    if not isinstance(made, tuple):
        return made, (), {}
    module, *rest = made
    args = rest[0] if rest else ()
    kwargs = rest[1] if len(rest) > 1 else {}
    args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    return module, args, dict(kwargs)


def _read(
    path: Path, format_: Format, *, trust_pickle: bool
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    if format_ is Format.HUGGING_FACE:
        from lemurc.frontend.huggingface import load_folder

        module, kwargs = load_folder(path)
        return module, (), kwargs
    if format_ is Format.EXPORTED_PROGRAM:
        return _exported_program(path), (), {}
    if format_ is Format.TORCHSCRIPT:
        return _torchscript(path), (), {}
    if format_ is Format.PICKLE:
        from lemurc.frontend.pickled import load_pickled

        return load_pickled(path, trust=trust_pickle), (), {}
    assert format_ is Format.SAFETENSORS
    raise UnsupportedModelError(
        f"{str(path)!r} holds weights but not the model they belong to",
        code="weights-only",
        hint=BUILD_HINT,
    )


def _exported_program(path: Path) -> Any:
    import torch

    try:
        return torch.export.load(path)
    except Exception as error:
        refuse_damaged_archive(path)
        raise UnsupportedModelError(
            f"PyTorch {torch.__version__} cannot load the torch.export archive {str(path)!r}: "
            f"{str(error).splitlines()[0] if str(error) else type(error).__name__}",
            code="archive-unreadable",
            hint="export the model again with this version of PyTorch",
        ) from error


def _torchscript(path: Path) -> Any:
    import torch

    try:
        load_script: Any = torch.jit.load
        return load_script(str(path), map_location="cpu")
    except Exception as error:
        refuse_damaged_archive(path)
        raise UnsupportedModelError(
            f"PyTorch {torch.__version__} cannot load the TorchScript archive {str(path)!r}: "
            f"{str(error).splitlines()[0] if str(error) else type(error).__name__}",
            code="torchscript",
            hint="export the original PyTorch model with torch.export.save",
        ) from error


def _program(
    model: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
    dynamic: list[str],
    name: str,
) -> Program:
    from lemurc.frontend.examples import example_call
    from lemurc.frontend.torch_export import EntryPoint, program_from_torch

    if not isinstance(model, Mapping):
        args, kwargs = example_call(model, args, kwargs)
        shapes = dynamic_shapes or _shapes(dynamic, model, args, kwargs)
        return program_from_torch({"main": EntryPoint(model, args, kwargs, shapes)}, name)
    if not model:
        raise UsageError("the model has no entry points", code="no-entry-points")
    shapes = dynamic_shapes or {}
    entry_points = {}
    for key, made in model.items():
        module, own_args, own_kwargs = _parts(made)
        own_args, own_kwargs = example_call(module, own_args, own_kwargs)
        own = shapes.get(key) or _shapes(dynamic, module, own_args, own_kwargs)
        entry_points[str(key)] = EntryPoint(module, own_args, own_kwargs, own)
    return program_from_torch(entry_points, name)


def _shapes(dynamic: list[str], module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not dynamic:
        return None
    from lemurc.frontend.inputs import dynamic_shapes, parse_dynamic
    from lemurc.frontend.signature import argument_names

    return dynamic_shapes(parse_dynamic(dynamic), args, kwargs, list(argument_names(module)))
