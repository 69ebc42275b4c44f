"""Operators that torch-mlir gets wrong or lacks, in others that it has right.

DequantizeLinear(x, s, z)     (float(int32(x) - z)) * s, s and z laid along the axis
QuantizeLinear(x, s, z)       clip(round(x / s) + z)
ConvInteger(x, w, a, b)       int32(Conv(double(x - a), double(w - b)))
MatMulInteger(x, w, a, b)     MatMul(int32(x) - a, int32(w) - b)
MatMul(x [n], w)              MatMul(x [1, n], w), squeezed
Cast(x : float) : unsigned    by way of int64          (else: 127 is the most of 8 bits)
LpNormalization(x)            where(norm == 0, 0, x / norm)
"""

from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper

from lemurc.errors import UnsupportedModelError
from lemurc.frontend.onnx.edits import Edits, attributes
from lemurc.frontend.onnx.graph import ConcreteGraph
from lemurc.frontend.onnx.quantised import QUANTISED

_AXES_AS_INPUT = 13
"""The first opset whose operators take axes as a tensor."""


def rewrite(graph: ConcreteGraph) -> None:
    """Replace operators in place; results keep their names."""
    edits = Edits(graph.proto, graph.weights)
    nodes: list[onnx.NodeProto] = []
    for node in edits.graph.node:
        edits.place = node.name
        made = _REWRITES.get(node.op_type)
        result = made(node, edits) if made else None
        nodes += edits.taken()
        if result is None:
            nodes.append(node)
        else:
            nodes.append(helper.make_node("Identity", [result], node.output[:1], node.name))
    del edits.graph.node[:]
    edits.graph.node.extend(nodes)


def _multiply_vectors(node: onnx.NodeProto, edits: Edits) -> str | None:
    shapes = [edits.shape(name) for name in node.input]
    if all(len(sizes) > 1 for sizes in shapes) or edits.opset < _AXES_AS_INPUT:
        return None
    dtype, operands, axes = edits.dtype(node.output[0]), list(node.input), []
    result = list(edits.shape(node.output[0]))
    for at, axis in ((1, -1), (0, -2)):
        if len(shapes[at]) == 1:
            sizes = (*shapes[at], 1) if at else (1, *shapes[at])
            where = edits.constant(np.asarray([-at]), dtype=np.int64)
            operands[at] = edits.add("Unsqueeze", [operands[at], where], dtype, sizes)
            result.insert(len(result) + axis + 1, 1)
            axes.append(axis)
    product = edits.add("MatMul", operands, dtype, tuple(result))
    where = edits.constant(np.asarray(axes), dtype=np.int64)
    return edits.add("Squeeze", [product, where], dtype, edits.shape(node.output[0]))


def _cast(node: onnx.NodeProto, edits: Edits) -> str | None:
    source, target = edits.dtype(node.input[0]), edits.dtype(node.output[0])
    if source.kind not in "fV" or target.kind != "u":
        return None
    return edits.cast_to(edits.cast_to(node.input[0], np.int64), target)


def _refuse_fractional_corners(node: onnx.NodeProto, edits: Edits) -> str | None:
    """ONNX aligns to the corner of a size that need not be whole, torch-mlir to a whole one."""
    mode = attributes(node).get("coordinate_transformation_mode", b"half_pixel")
    scales = edits.value(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    if mode != b"align_corners" or scales is None or not scales.size:
        return None
    sizes = edits.shape(node.input[0])[-scales.size :]
    for size, scale in zip(sizes, scales.tolist(), strict=True):
        if scale != 1 and (size is None or size * scale != round(size * scale)):
            raise UnsupportedModelError(
                f"a resize by {scale} that aligns corners to a size that is not whole",
                code="unsupported-ops",
                where=node.name,
                hint="export it with sizes in place of scales, or another coordinate mode",
            )
    return None


def _normalize(node: onnx.NodeProto, edits: Edits) -> str | None:
    if edits.opset < _AXES_AS_INPUT:
        return None
    (x,) = node.input
    given, dtype, shape = attributes(node), edits.dtype(x), edits.shape(x)
    axis = given.get("axis", -1) % len(shape)
    reduced = tuple(1 if at == axis else size for at, size in enumerate(shape))
    squared = given.get("p", 2) == 2
    kind = "Mul" if squared else "Abs"
    part = edits.add(kind, [x, x] if squared else [x], dtype, shape)
    where = edits.constant(np.asarray([axis]), dtype=np.int64)
    norm = edits.add("ReduceSum", [part, where], dtype, reduced, keepdims=1)
    if squared:
        norm = edits.add("Sqrt", [norm], dtype, reduced)
    zero = edits.constant(np.asarray(0), dtype=dtype)
    none = edits.add("Equal", [norm, zero], np.bool_, reduced)
    quotient = edits.add("Div", [x, norm], dtype, shape)
    return edits.add("Where", [none, zero, quotient], dtype, shape)


_REWRITES: dict[str, Callable[[onnx.NodeProto, Edits], str | None]] = {
    "Cast": _cast,
    "Resize": _refuse_fractional_corners,
    "LpNormalization": _normalize,
    "MatMul": _multiply_vectors,
    **QUANTISED,
}
