"""Quantised operators of ONNX in plain ones, exact where they are integers.

DequantizeLinear(x, s, z)     (float(int32(x) - z)) * s, s and z laid along the axis
QuantizeLinear(x, s, z)       clip(round(x / s) + z)
ConvInteger(x, w, a, b)       int32(Conv(double(x - a), double(w - b)))
MatMulInteger(x, w, a, b)     MatMul(int32(x) - a, int32(w) - b)
QLinearConv, QLinearMatMul    one of the two before, times a scale, quantised
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper

from lemurc.errors import UnsupportedModelError
from lemurc.frontend.onnx.edits import Edits, Sizes, attributes


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
    zero = _along_axis(node, edits, rest[0]) if rest and rest[0] else ""
    return _rounded(edits, number, zero, shape, dtype)


def _rounded(edits: Edits, number: str, zero: str, shape: Sizes, dtype: np.dtype[Any]) -> str:
    """The nearest integer of `dtype` to a float, from the zero point on."""
    number = edits.add("Round", [number], np.float32, shape)
    if zero:
        start = edits.cast_to(zero, np.float32)
        number = edits.add("Add", [number, start], np.float32, shape)
    limits = np.iinfo(dtype)
    low, high = (edits.constant(np.asarray(n), dtype=np.float32) for n in (limits.min, limits.max))
    number = edits.add("Clip", [number, low, high], np.float32, shape)
    # a cast to bytes would stop at 127
    return edits.cast_to(edits.cast_to(number, np.int64), dtype)


def _along_axis(node: onnx.NodeProto, edits: Edits, name: str) -> str:
    """A vector of one number per slice, shaped so that it broadcasts along the axis."""
    given = attributes(node)
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
    product = edits.add("Conv", operands, np.float64, shape, **attributes(node))
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


def _convolve_quantised(node: onnx.NodeProto, edits: Edits) -> str | None:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *bias = node.input
    inner = helper.make_node("ConvInteger", [x, w, x_zero, w_zero], node.output)
    inner.attribute.extend(node.attribute)
    total = _convolve_integers(inner, edits)
    assert total is not None
    shape, channels = edits.shape(node.output[0]), [1] * (len(edits.shape(w)) - 2)
    if bias and bias[0]:
        added = _reshaped(edits, bias[0], (*edits.shape(bias[0]), *channels))
        total = edits.add("Add", [total, added], np.int32, shape)
    if edits.shape(w_scale) not in ((), (1,)):
        w_scale = _reshaped(edits, w_scale, (*edits.shape(w_scale), *channels))
    return _scaled(edits, node.output[0], total, (x_scale, w_scale, y_scale), y_zero)


def _multiply_quantised(node: onnx.NodeProto, edits: Edits) -> str | None:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.input
    if any(edits.shape(name) not in ((), (1,)) for name in (a_scale, b_scale, y_scale)):
        return None
    inner = helper.make_node("MatMulInteger", [a, b, a_zero, b_zero], node.output)
    total = _multiply_integers(inner, edits)
    assert total is not None
    return _scaled(edits, node.output[0], total, (a_scale, b_scale, y_scale), y_zero)


def _scaled(edits: Edits, result: str, total: str, scales: tuple[str, str, str], zero: str) -> str:
    """`total` times the scales of the operands, over that of the result."""
    shape, dtype = edits.shape(result), edits.dtype(result)
    number = edits.cast_to(total, np.float32)
    for kind, scale in zip(("Mul", "Mul", "Div"), scales, strict=True):
        factor = edits.cast_to(scale, np.float32)
        if edits.shape(factor) == (1,):
            factor = _reshaped(edits, factor, ())
        number = edits.add(kind, [number, factor], np.float32, shape)
    if zero and edits.shape(zero) == (1,):
        zero = _reshaped(edits, zero, ())
    return _rounded(edits, number, zero, shape, dtype)


QUANTISED: dict[str, Callable[[onnx.NodeProto, Edits], str | None]] = {
    "ConvInteger": _convolve_integers,
    "DequantizeLinear": _dequantize,
    "MatMulInteger": _multiply_integers,
    "QLinearConv": _convolve_quantised,
    "QLinearMatMul": _multiply_quantised,
    "QuantizeLinear": _quantize,
}
