"""Powers of floats as C defines them, zeros, infinities and NaN included.

pow(x, y) is computed of |x|, and what a negative or zero x gives is put in where y calls for
it: IREE expands it to exp(y log x), which has no answer for x <= 0, nor for 1 to an infinite
power. Constant powers 0.5 and -0.5 are roots in PyTorch, which -inf has none of, but in f16.
"""

import math

import ml_dtypes
import numpy as np
from torch_mlir import ir

from lemurc.passes.torch_constants import constant, dtype
from lemurc.passes.torch_operations import convert, create, number, with_dtype

_FLOATS = ("f32", "f64")
_HALVES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
"""PyTorch rounds a constant exponent to these."""

_NAN = float("nan")


def power_of_tensors(operation: ir.Operation) -> None:
    """Of torch.aten.pow.Tensor_Tensor on floats."""
    x, y = operation.operands
    kind = dtype(operation.results[0])
    if kind not in (*_FLOATS, *_HALVES):
        return
    wide = "f32" if kind in _HALVES else kind
    made = _power(convert(x, wide), convert(y, wide), operation.results[0])
    _replace(operation, convert(made, kind))


def constant_power(operation: ir.Operation) -> None:
    """Of torch.aten.pow.Tensor_Scalar on floats."""
    value, by = operation.operands
    kind, power = dtype(value), constant(by)
    if kind not in (*_FLOATS, *_HALVES) or not isinstance(power, (int, float)):
        return
    rounded = float(np.array(power).astype(_HALVES[kind])) if kind in _HALVES else power
    wide = convert(value, "f32" if kind in _HALVES else kind)
    if not math.isfinite(rounded):
        made = _endless_power(wide, rounded)
    elif rounded != int(rounded):
        if abs(rounded) == 0.5 and kind != "f16":
            return
        made = _broken_power(wide, rounded)
    elif rounded < 0:
        made = wide
        if rounded != -1:
            made = create(operation.name, [wide, number(-int(rounded))], wide.type)
        made = create("torch.aten.reciprocal", [made], made.type)
    elif rounded != power:
        made = create(operation.name, [wide, number(int(rounded))], wide.type)
    else:
        return
    _replace(operation, convert(made, dtype(operation.results[0])))


def _endless_power(x: ir.Value, power: float) -> ir.Value:
    """By an infinity or NaN."""
    if math.isnan(power):
        missing = create("torch.aten.mul.Scalar", [x, number(_NAN)], x.type)
        return _where(_compare("eq", x, 1.0), 1.0, missing)
    size = create("torch.aten.abs", [x], x.type)
    grows = _compare("gt" if power > 0 else "lt", size, 1.0)
    shrinks = _compare("lt" if power > 0 else "gt", size, 1.0)
    # what is neither is 1, or NaN
    return _where(grows, math.inf, _where(shrinks, 0.0, size))


def _broken_power(x: ir.Value, power: float) -> ir.Value:
    """By a number that is not whole."""
    size = create("torch.aten.abs", [x], x.type)
    made = create("torch.aten.pow.Tensor_Scalar", [size, number(power)], x.type)
    return _where(_negative_and_finite(x), _NAN, made)


def _power(x: ir.Value, y: ir.Value, like: ir.Value) -> ir.Value:
    """In the type of x, of the shape of `like`."""
    kind = with_dtype(like, dtype(x))
    size = create("torch.aten.abs", [x], x.type)
    power = create("torch.aten.pow.Tensor_Tensor", [size, y], kind)
    power = create(
        "torch.aten.where.ScalarSelf", [_compare("eq", size, 1.0), number(1.0), power], kind
    )
    truth = with_dtype(y, "i1")
    half = create("torch.aten.mul.Scalar", [y, number(0.5)], y.type)
    floor, half_floor = (create("torch.aten.floor", [value], y.type) for value in (y, half))
    broken = create("torch.aten.ne.Tensor", [y, floor], truth)
    odd = create("torch.aten.ne.Tensor", [half, half_floor], truth)
    # half of a broken number is not whole either, but its sign does not count
    odd = create("torch.aten.logical_and", [odd, create("torch.aten.logical_not", [broken], truth)],
                 truth)  # fmt: skip
    mirrored = create("torch.aten.neg", [power], kind)
    signed = create("torch.aten.where.self", [odd, mirrored, power], kind)
    below = with_dtype(x, "i1")
    # 1 / -0.0 is below 0, as -0.0 is not
    inverse = create("torch.aten.reciprocal", [x], x.type)
    negative = create(
        "torch.aten.logical_or", [_compare("lt", x, 0.0), _compare("lt", inverse, 0.0)], below
    )
    made = create("torch.aten.where.self", [negative, signed, power], kind)
    both = with_dtype(like, "i1")
    missing = create("torch.aten.logical_and", [_negative_and_finite(x), broken], both)
    made = create("torch.aten.where.ScalarSelf", [missing, number(_NAN), made], kind)
    return create("torch.aten.where.ScalarSelf", [_compare("eq", y, 0.0), number(1.0), made], kind)


def _negative_and_finite(x: ir.Value) -> ir.Value:
    parts = [_compare("lt", x, 0.0), _compare("gt", x, -math.inf)]
    return create("torch.aten.logical_and", parts, with_dtype(x, "i1"))


def _compare(name: str, x: ir.Value, with_: float) -> ir.Value:
    return create(f"torch.aten.{name}.Scalar", [x, number(with_)], with_dtype(x, "i1"))


def _where(chosen: ir.Value, value: float, other: ir.Value) -> ir.Value:
    return create("torch.aten.where.ScalarSelf", [chosen, number(value), other], other.type)


def _replace(operation: ir.Operation, made: ir.Value) -> None:
    operation.results[0].replace_all_uses_with(made)
    operation.erase()
