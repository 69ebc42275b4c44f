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
from typing import Any

import numpy as np
import onnx
from onnx import helper

from lemurc.errors import UnsupportedModelError
from lemurc.frontend.onnx.edits import Edits, Sizes
from lemurc.frontend.onnx.graph import ConcreteGraph

_AXES_AS_INPUT = 13
"""The first opset whose operators take axes as a tensor."""


def rewrite(graph: ConcreteGraph) -> None:
    """Replace operators in place; results keep their names."""
    edits = Edits(graph.proto, graph.weights)
    nodes: list[onnx.NodeProto] = []
    for node in edits.graph.node:
        made = _REWRITES.get(node.op_type)
        result = made(node, edits) if made else None
        nodes += edits.taken()
        if result is None:
            nodes.append(node)
        else:
            nodes.append(helper.make_node("Identity", [result], node.output[:1], node.name))
    del edits.graph.node[:]
    edits.graph.node.extend(nodes)


def _dequantize(node: onnx.NodeProto, edits: Edits) -> str | None:
    x, scale, *rest = node.input
    shape = edits.shape(x)
    difference = edits.cast_to(x, np.int32)
    if rest and rest[0]:
        zero = _along_axis(node, edits, edits.cast_to(rest[0], np.int32))
        difference = edits.add("Sub", [difference, zero], np.int32, shape)
    dtype = edits.dtype(node.output[0])
    factor = edits.cast_to(_along_axis(node, edits, scale), np.float32)
    product = edits.add("Mul", [edits.cast_to(difference, np.float32), factor], np.float32, shape)
    return edits.cast_to(product, dtype)


def _quantize(node: onnx.NodeProto, edits: Edits) -> str | None:
    x, scale, *rest = node.input
    shape, dtype = edits.shape(x), edits.dtype(node.output[0])
    if dtype.kind not in "iu":
        return None
    divisor = edits.cast_to(_along_axis(node, edits, scale), np.float32)
    number = edits.add("Div", [edits.cast_to(x, np.float32), divisor], np.float32, shape)
    number = edits.add("Round", [number], np.float32, shape)
    if rest and rest[0]:
        zero = _along_axis(node, edits, edits.cast_to(rest[0], np.float32))
        number = edits.add("Add", [number, zero], np.float32, shape)
    limits = np.iinfo(dtype)
    low, high = (edits.constant(np.asarray(n), dtype=np.float32) for n in (limits.min, limits.max))
    number = edits.add("Clip", [number, low, high], np.float32, shape)
    return edits.cast_to(edits.cast_to(number, np.int64), dtype)


def _along_axis(node: onnx.NodeProto, edits: Edits, name: str) -> str:
    """A vector of one number per slice, shaped so that it broadcasts along the axis."""
    given = _attributes(node)
    if given.get("block_size", 0):
        raise UnsupportedModelError(
            f"{node.op_type} by blocks is not compiled",
            code="unsupported-ops",
            where=node.name,
            hint="quantise by tensor or by channel",
        )
    sizes, rank = edits.shape(name), len(edits.shape(node.input[0]))
    if sizes in ((), (1,)):
        return _reshaped(edits, name, ())
    trailing = rank - 1 - given.get("axis", 1) % rank
    return _reshaped(edits, name, (*sizes, *[1] * trailing))


def _reshaped(edits: Edits, name: str, sizes: Sizes) -> str:
    if edits.shape(name) == sizes:
        return name
    wanted = edits.constant(np.asarray(sizes, np.int64), dtype=np.int64)
    return edits.add("Reshape", [name, wanted], edits.dtype(name), sizes)


def _convolve_integers(node: onnx.NodeProto, edits: Edits) -> str | None:
    """Sums of products of 8 bits are exact in 53 bits; the padding is of zeros then."""
    x, w, *zeros = node.input
    operands = [x, w]
    for at, name in enumerate(operands):
        number = edits.cast_to(name, np.float64)
        if at < len(zeros) and zeros[at]:
            zero = edits.cast_to(zeros[at], np.float64)
            if at == 1 and edits.shape(zero) not in ((), (1,)):
                trailing = [1] * (len(edits.shape(w)) - 1)
                zero = _reshaped(edits, zero, (*edits.shape(zero), *trailing))
            else:
                zero = _reshaped(edits, zero, ())
            number = edits.add("Sub", [number, zero], np.float64, edits.shape(name))
        operands[at] = number
    shape = edits.shape(node.output[0])
    product = edits.add("Conv", operands, np.float64, shape, **_attributes(node))
    return edits.cast_to(product, np.int32)


def _multiply_integers(node: onnx.NodeProto, edits: Edits) -> str | None:
    a, b, *zeros = node.input
    operands = [a, b]
    for at, name in enumerate(operands):
        number = edits.cast_to(name, np.int32)
        if at < len(zeros) and zeros[at]:
            zero, sizes = edits.cast_to(zeros[at], np.int32), edits.shape(zeros[at])
            if sizes in ((), (1,)):
                zero = _reshaped(edits, zero, ())
            elif at == 0:  # one for each row
                zero = _reshaped(edits, zero, (*sizes, 1))
            number = edits.add("Sub", [number, zero], np.int32, edits.shape(name))
        operands[at] = number
    return edits.add("MatMul", operands, np.int32, edits.shape(node.output[0]))


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


def _normalize(node: onnx.NodeProto, edits: Edits) -> str | None:
    if edits.opset < _AXES_AS_INPUT:
        return None
    (x,) = node.input
    given, dtype, shape = _attributes(node), edits.dtype(x), edits.shape(x)
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


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {item.name: helper.get_attribute_value(item) for item in node.attribute}


_REWRITES: dict[str, Callable[[onnx.NodeProto, Edits], str | None]] = {
    "Cast": _cast,
    "ConvInteger": _convolve_integers,
    "DequantizeLinear": _dequantize,
    "LpNormalization": _normalize,
    "MatMul": _multiply_vectors,
    "MatMulInteger": _multiply_integers,
    "QuantizeLinear": _quantize,
}
