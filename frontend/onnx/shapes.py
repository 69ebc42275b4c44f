"""What every tensor of an ONNX graph is, once the sizes of its inputs are numbers.

    sizes {batch: 5, seq: 7}    ->    "add_3": float32[5, 7, 64];  "shape": int64[2] = [5, 7]

One walk over the graph: ONNX's own rules give types and shapes, and what depends on
nothing but sizes and small constants is computed right away. So shapes that a model
computes from shapes are known, which inference over symbols leaves open.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lemurc.frontend.onnx.read import DTYPES, OnnxModel, by_definition
from lemurc.frontend.onnx.reference import evaluator
from lemurc.frontend.program import Array

SMALL = 4096
"""Elements of the largest tensor that is computed ahead of time."""
_RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial"}
    | {"Bernoulli", "Dropout"}
)


class ShapesUnknown(Exception):
    """`node` cannot have inputs of these shapes, or has results as long as its data says."""

    def __init__(self, node: onnx.NodeProto, reason: str) -> None:
        super().__init__(f"{node.name} ({node.op_type}): {reason}")
        self.node = node
        self.reason = reason


@dataclass(frozen=True)
class Known:
    """`elements` is a TensorProto.DataType; `value` is there when it is always the same."""

    elements: int
    shape: tuple[int, ...]
    value: Array | None = None

    def proto(self) -> onnx.TypeProto:
        return helper.make_tensor_type_proto(self.elements, self.shape)


def walk(model: OnnxModel, sizes: Mapping[str, int]) -> dict[str, Known]:
    """Every tensor by name; `sizes` gives a number to each symbol of the inputs."""
    known = {name: _stored(array) for name, array in model.data.items()}
    for value in model.inputs:
        kind = value.type.tensor_type
        shape = tuple(_size(dim, sizes) for dim in kind.shape.dim)
        known[value.name] = Known(kind.elem_type, shape)
    for node in model.proto.graph.node:
        known.update(_results(node, known, model))
    return known


def evaluate(node: onnx.NodeProto, inputs: Mapping[str, Array], opset: int) -> list[Array]:
    """The results of one node, by ONNX's reference implementation."""
    given = [name for name in dict.fromkeys(node.input) if name]
    graph = helper.make_graph(
        [node],
        "node",
        [helper.make_value_info(name, onnx.TypeProto()) for name in given],
        [helper.make_value_info(name, onnx.TypeProto()) for name in node.output if name],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    results = evaluator(model).run(None, {name: inputs[name] for name in given})
    return [np.asarray(result) for result in results]


def _size(dim: onnx.TensorShapeProto.Dimension, sizes: Mapping[str, int]) -> int:
    return dim.dim_value if dim.HasField("dim_value") else sizes[dim.dim_param]


def _stored(array: Array) -> Known:
    elements = int(helper.np_dtype_to_tensor_dtype(array.dtype))
    return Known(elements, array.shape, array if array.size <= SMALL else None)


def _results(
    node: onnx.NodeProto, known: Mapping[str, Known], model: OnnxModel
) -> dict[str, Known]:
    given = {name: known[name] for name in node.input if name}
    if node.op_type in ("Shape", "Size"):
        numbers = _measured(node, given[node.input[0]].shape)
        return {node.output[0]: Known(onnx.TensorProto.INT64, numbers.shape, numbers)}
    types = _types(node, given, model)
    wanted = [name for name in node.output if name]
    sizes = [math.prod(types[name].shape) for name in wanted]
    constant = all(item.value is not None for item in given.values())
    if not constant or node.op_type in _RANDOM or max(sizes, default=0) > SMALL:
        return types
    inputs = {name: item.value for name, item in given.items() if item.value is not None}
    try:
        with np.errstate(all="ignore"):
            values = evaluate(node, inputs, model.opset)
    except Exception as error:
        raise ShapesUnknown(node, f"its constant inputs are refused: {error}") from error
    return {
        name: Known(types[name].elements, value.shape, value)
        for name, value in zip(wanted, values, strict=True)
    }


def _measured(node: onnx.NodeProto, shape: tuple[int, ...]) -> Array:
    if node.op_type == "Size":
        return np.asarray(math.prod(shape), np.int64)
    given = {item.name: item.i for item in node.attribute}
    return np.asarray(shape[given.get("start", 0) : given.get("end", len(shape))], np.int64)


def _types(node: onnx.NodeProto, given: Mapping[str, Known], model: OnnxModel) -> dict[str, Known]:
    schema: Any = onnx.defs.get_schema(node.op_type, model.opset, "")
    data = {
        name: numpy_helper.from_array(np.ascontiguousarray(item.value).reshape(item.shape), name)
        for name, item in given.items()
        if item.value is not None
    }
    try:
        inferred = onnx.shape_inference.infer_node_outputs(
            schema,
            node,
            {name: item.proto() for name, item in given.items()},
            data,
            opset_imports=[helper.make_opsetid("", model.opset)],
            ir_version=model.proto.ir_version,
        )
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()
        raise ShapesUnknown(node, reason[-1] if reason else type(error).__name__) from error
    try:
        return {name: _known(node, name, inferred.get(name)) for name in node.output if name}
    except ShapesUnknown:
        if not (schema.has_function or schema.has_context_dependent_function):
            raise
        return _types_by_body(node, given, model)


def _types_by_body(
    node: onnx.NodeProto, given: Mapping[str, Known], model: OnnxModel
) -> dict[str, Known]:
    """Some operators have no rule for shapes, but a body of others that do."""
    kinds = {name: item.proto() for name, item in given.items()}
    graph = helper.make_graph(
        [node],
        "node",
        [helper.make_value_info(name, kind) for name, kind in kinds.items()],
        [helper.make_value_info(name, onnx.TypeProto()) for name in node.output if name],
    )
    alone = helper.make_model(graph, opset_imports=[helper.make_opsetid("", model.opset)])
    body = by_definition(alone, [node.op_type], model.opset)
    if any(inner.op_type == node.op_type for inner in body.proto.graph.node):
        raise ShapesUnknown(node, "its shape is not known")
    values = {name: item.value for name, item in given.items() if item.value is not None}
    known = walk(OnnxModel(body.proto, body.data | values), {})
    return {name: known[name] for name in node.output if name}


def _known(node: onnx.NodeProto, name: str, kind: onnx.TypeProto | None) -> Known:
    if kind is None or not kind.HasField("tensor_type"):
        raise ShapesUnknown(node, f"the type of {name!r} is not known")
    tensor = kind.tensor_type
    if tensor.elem_type not in DTYPES:
        spelled = onnx.TensorProto.DataType.Name(tensor.elem_type)
        raise ShapesUnknown(node, f"{name!r} holds elements of type {spelled}")
    dims = list(tensor.shape.dim)
    if not tensor.HasField("shape") or not all(dim.HasField("dim_value") for dim in dims):
        raise ShapesUnknown(node, f"the size of {name!r} depends on values")
    return Known(tensor.elem_type, tuple(dim.dim_value for dim in dims))
