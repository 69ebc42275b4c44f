"""ONNX files to a Program.

read -> declare sizes -> walk the graph at some of them -> fold, guard -> MLIR
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lemurc.errors import UsageError
from lemurc.frontend.onnx.broadcasts import refuse_unproven
from lemurc.frontend.onnx.graph import concrete
from lemurc.frontend.onnx.guards import guard
from lemurc.frontend.onnx.read import DTYPES, OnnxModel, expanded, read, upgraded
from lemurc.frontend.onnx.reference import onnx_reference
from lemurc.frontend.onnx.refusals import refuse_unsupported
from lemurc.frontend.onnx.rewrites import rewrite
from lemurc.frontend.onnx.sizes import Analysis, analyse, declare, example_sizes
from lemurc.frontend.onnx.to_mlir import to_mlir
from lemurc.frontend.program import Array, Program, Signature
from lemurc.manifest import TensorSpec
from lemurc.pytree import LEAF, Tree

_SMALL = 8
"""Integers of a drawn example stay below: they index the smallest of tables safely."""


def load_onnx(
    path: Path, args: Sequence[Any], kwargs: Mapping[str, Any], dynamic: Sequence[str]
) -> Program:
    """`args` and `kwargs` are the example call, tensors or arrays; without, it is drawn.

    One result is returned as it is, several as a tuple in the order of the graph.
    """
    original = read(path)
    refuse_unsupported(original)
    model = expanded(upgraded(original))
    symbols = declare(model, dynamic)
    given = _given(model, args, kwargs)
    analysis = analyse(model, symbols, example_sizes(model.inputs, given) if given else {})
    graph = concrete(model, analysis)
    refuse_unproven(graph.proto.graph.node, analysis)
    rewrite(graph)
    guarded = guard(graph, len(model.inputs), model.opset)
    checks = bool(guarded.messages)
    signature = dataclasses.replace(
        _signature(model, analysis), input_ranges=guarded.ranges, checks=guarded.messages
    )
    return Program(
        name=path.stem,
        mlir=to_mlir(guarded.graph, analysis, len(model.inputs), checks=checks),
        functions={"main": signature},
        weights=guarded.graph.weights,
        reference={"main": onnx_reference(original)},
        examples={"main": given or _drawn(analysis, model)},
        level="onnx",
        reference_name="ONNX's reference evaluator",
        producer={"onnx": f"opset {original.opset}, {_producer(original)}"},
    )


def _producer(model: OnnxModel) -> str:
    made_by = f"{model.proto.producer_name} {model.proto.producer_version}".strip()
    return f"IR version {model.proto.ir_version}" + (f", by {made_by}" if made_by else "")


def _signature(model: OnnxModel, analysis: Analysis) -> Signature:
    names = [value.name for value in model.inputs]
    inputs = tuple(_spec(name, analysis) for name in names)
    outputs = tuple(_spec(value.name, analysis) for value in model.proto.graph.output)
    positional: Tree = {"kind": "tuple", "items": [LEAF] * len(inputs)}
    keywords: Tree = {"kind": "dict", "keys": [], "items": []}
    results: Tree = {"kind": "tuple", "items": [LEAF] * len(outputs)}
    return Signature(
        inputs=inputs,
        outputs=outputs,
        in_tree={"kind": "tuple", "items": [positional, keywords]},
        out_tree=LEAF if len(outputs) == 1 else results,
        argument_names=tuple(names),
    )


def _spec(name: str, analysis: Analysis) -> TensorSpec:
    dtype = DTYPES[analysis.tensors[name].elements]
    return TensorSpec(name, dtype, analysis.symbolic(name))


def _given(model: OnnxModel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Array]:
    """The example call in the order of the inputs; empty when there is none."""
    if not args and not kwargs:
        return []
    names = [value.name for value in model.inputs]
    found = dict(zip(names, args, strict=False)) | dict(kwargs)
    if len(args) > len(names) or set(found) != set(names) or len(args) + len(kwargs) > len(names):
        raise UsageError(
            f"the example call has {len(args)} positional inputs and "
            f"{', '.join(kwargs) or 'none'} by name; the model takes {', '.join(names)}",
            code="example-mismatch",
            hint="give all of them, by position or by name, or none to have them drawn",
        )
    arrays = []
    for value in model.inputs:
        array, kind = _array(found[value.name]), value.type.tensor_type
        dtype, dims = DTYPES[kind.elem_type], kind.shape.dim
        fits = len(dims) == array.ndim and all(
            not dim.HasField("dim_value") or dim.dim_value == size
            for dim, size in zip(dims, array.shape, strict=False)
        )
        if array.dtype.name != dtype or not fits:
            shape = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in dims]
            raise UsageError(
                f"the example of input {value.name!r} is {array.dtype}{list(array.shape)}; "
                f"the model takes {dtype}{shape}",
                code="example-mismatch",
                hint=f"for example --input {value.name}=SHAPExTYPE, or @file.npy",
            )
        arrays.append(array)
    return arrays


def _array(value: Any) -> Array:
    if isinstance(value, np.ndarray):
        return value
    from lemurc.frontend.arrays import to_array

    return to_array(value)


def _drawn(analysis: Analysis, model: OnnxModel) -> list[Array]:
    """Normal floats, small integers and booleans; the same for the same model."""
    generator = np.random.default_rng(0)
    arrays = []
    for value in model.inputs:
        tensor = analysis.tensors[value.name]
        shape, dtype = tensor.sizes[0], np.dtype(DTYPES[tensor.elements])
        if dtype.kind in "iub":
            drawn: Array = generator.integers(0, 2 if dtype == np.bool_ else _SMALL, shape)
        else:
            drawn = generator.standard_normal(shape)
        arrays.append(np.asarray(drawn).astype(dtype))
    return arrays
