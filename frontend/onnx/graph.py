"""The graph that is imported: constants folded, every type known, weights as inputs.

Shape -> Gather -> Concat -> Reshape      Reshape with a constant, where sizes allow
initializer [1024, 1024]                  an input, marked as a parameter
initializer [2] of int64                  a constant: shapes, axes, repeats
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lemurc.frontend.onnx.read import OnnxModel
from lemurc.frontend.onnx.sizes import Analysis, Tensor
from lemurc.frontend.program import Array

_INDEX_LIST = 64
"""Elements of the longest list of integers that counts as a shape and not as a weight."""
_CONSTANT_INPUTS = {
    "BatchNormalization": (),
    "DequantizeLinear": (1, 2),
    "DynamicQuantizeLinear": (),
    "Pad": (1, 2, 3),
    "QuantizeLinear": (1, 2),
    "Resize": (1, 2, 3),
    "Upsample": (1,),
}
"""Inputs that torch-mlir reads while it converts, whatever their type."""

_RAW = ("float16", "bfloat16", "uint16")
"""The importer takes typed data of all types but these."""


@dataclass(frozen=True)
class ConcreteGraph:
    """`proto` has the caller's inputs first, then one for each of `weights`."""

    proto: onnx.ModelProto
    weights: dict[str, Array]


def concrete(model: OnnxModel, analysis: Analysis) -> ConcreteGraph:
    outputs = [value.name for value in model.proto.graph.output]
    nodes = _needed(model.proto.graph.node, analysis, outputs)
    read = {name for node in nodes for name in node.input if name} | set(outputs)
    made = {name for node in nodes for name in node.output}
    callers = [value.name for value in model.inputs]
    fixed = _read_while_converting(nodes)
    constants, weights = [], {}
    for name in sorted(read - made - set(callers)):
        array = model.data.get(name)
        array = analysis.tensors[name].value if array is None else array
        assert array is not None
        if name in fixed or _is_constant(array):
            constants.append(_literal(name, array))
        else:
            weights[name] = array
    types = {
        name: _value_info(name, analysis.tensors[name])
        for name in [*callers, *weights, *outputs, *sorted(made - {""})]
    }
    graph = helper.make_graph(
        nodes,
        "main",
        [types[name] for name in (*callers, *weights)],
        [types[name] for name in outputs],
        constants,
        value_info=[types[name] for name in sorted(made - {""} - set(outputs))],
    )
    opset = [helper.make_opsetid("", model.opset)]
    proto = helper.make_model(graph, opset_imports=opset, ir_version=model.proto.ir_version)
    return ConcreteGraph(proto, weights)


def _needed(
    nodes: Iterable[onnx.NodeProto], analysis: Analysis, outputs: list[str]
) -> list[onnx.NodeProto]:
    """Nodes that some output needs and that are not constant, in order."""
    wanted, kept = set(outputs), []
    for node in reversed(list(nodes)):
        results = [name for name in node.output if name in wanted]
        if any(analysis.tensors[name].value is None for name in results):
            kept.append(node)
            wanted.update(name for name in node.input if name)
    return kept[::-1]


def _read_while_converting(nodes: Iterable[onnx.NodeProto]) -> set[str]:
    return {
        node.input[at]
        for node in nodes
        for at in _CONSTANT_INPUTS.get(node.op_type, ())
        if at < len(node.input)
    }


def _is_constant(array: Array) -> bool:
    """A number, or a list of few integers."""
    return array.size == 1 or (
        array.ndim <= 1 and array.size <= _INDEX_LIST and array.dtype in (np.int64, np.int32)
    )


def _literal(name: str, array: Array) -> onnx.TensorProto:
    """Typed data where the importer takes it: folding does not read raw bytes."""
    if array.dtype.name not in _RAW:
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        return helper.make_tensor(name, kind, array.shape, array.reshape(-1).tolist())
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def _value_info(name: str, tensor: Tensor) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, tensor.elements, tensor.shape)
