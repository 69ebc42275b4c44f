"""Functions of floats written so that torch-mlir and IREE compute them right.

tanh(x)           -> the sign of x times 1 - 2 e / (1 + e), e = exp(-2 |x|), and near 0
                     expm1(2 x) / (expm1(2 x) + 2)
                     (IREE's stops short of 1, which asin or log1p then shows)
pow(x, -2)        -> reciprocal(pow(x, 2))                 (IREE: NaN at 0)
pow(x, y)         -> pow(|x|, y) with the sign for whole y (IREE: NaN for x <= 0
                                                            and for 1 to an infinite power)
lt(x : f32, 0)    -> lt(x, 0.0)                            (torch-mlir: a crash in folding)
"""

import math

from torch_mlir import ir

from lemurc.passes.torch_constants import constant, dtype
from lemurc.passes.torch_operations import convert, create, number, with_dtype

_FLOATS = ("f32", "f64")
_HALVES = ("f16", "bf16")
_COMPARISONS = frozenset(f"torch.aten.{name}.Scalar" for name in "lt le gt ge eq ne".split())


def rewrite_exactly(operation: ir.Operation) -> None:
    """Replace `operation` when it is one of the above."""
    if operation.name == "torch.aten.tanh" and dtype(operation.results[0]) in _FLOATS:
        _tanh(operation)
    elif operation.name == "torch.aten.pow.Tensor_Scalar":
        _negative_power(operation)
    elif operation.name == "torch.aten.pow.Tensor_Tensor":
        _power_of_tensors(operation)
    elif operation.name in _COMPARISONS:
        compared = constant(operation.operands[1])
        if dtype(operation.operands[0]) in _FLOATS and type(compared) is int:
            operation.operands[1] = number(float(compared))


def _tanh(operation: ir.Operation) -> None:
    (x,) = operation.operands
    result = operation.results[0]
    kind, truth = result.type, with_dtype(x, "i1")

    def plus(value: ir.Value, term: float) -> ir.Value:
        return create("torch.aten.add.Scalar", [value, number(term), number(1)], kind)

    def times(value: ir.Value, factor: float) -> ir.Value:
        return create("torch.aten.mul.Scalar", [value, number(factor)], kind)

    size = create("torch.aten.abs", [x], kind)
    e = create("torch.aten.exp", [times(size, -2.0)], kind)
    part = create("torch.aten.div.Tensor", [times(e, -2.0), plus(e, 1.0)], kind)
    small = create("torch.aten.expm1", [times(x, 2.0)], kind)
    near = create("torch.aten.div.Tensor", [small, plus(small, 2.0)], kind)
    positive = plus(part, 1.0)
    is_negative = create("torch.aten.lt.Scalar", [x, number(0.0)], truth)
    mirrored = create("torch.aten.neg", [positive], kind)
    far = create("torch.aten.where.self", [is_negative, mirrored, positive], kind)
    is_near = create("torch.aten.lt.Scalar", [size, number(0.5)], truth)
    made = create("torch.aten.where.self", [is_near, near, far], kind)
    result.replace_all_uses_with(made)
    operation.erase()


def _power_of_tensors(operation: ir.Operation) -> None:
    x, y = operation.operands
    result = operation.results[0]
    kind = dtype(result)
    if kind in _HALVES:
        made = convert(_power(convert(x, "f32"), convert(y, "f32"), result), kind)
    elif kind in _FLOATS:
        made = _power(convert(x, kind), convert(y, kind), result)
    else:
        return
    result.replace_all_uses_with(made)
    operation.erase()


def _power(x: ir.Value, y: ir.Value, like: ir.Value) -> ir.Value:
    """In the type of x, of the shape of `like`."""
    kind = with_dtype(like, dtype(x))
    size = create("torch.aten.abs", [x], x.type)
    power = create("torch.aten.pow.Tensor_Tensor", [size, y], kind)
    is_one = create("torch.aten.eq.Scalar", [size, number(1.0)], with_dtype(x, "i1"))
    power = create("torch.aten.where.ScalarSelf", [is_one, number(1.0), power], kind)
    y_truth = with_dtype(y, "i1")
    half = create("torch.aten.mul.Scalar", [y, number(0.5)], y.type)
    floor, half_floor = (create("torch.aten.floor", [value], y.type) for value in (y, half))
    broken = create("torch.aten.ne.Tensor", [y, floor], y_truth)
    odd = create("torch.aten.ne.Tensor", [half, half_floor], y_truth)
    mirrored = create("torch.aten.neg", [power], kind)
    signed = create("torch.aten.where.self", [odd, mirrored, power], kind)
    missing = number(float("nan"))
    signed = create("torch.aten.where.ScalarSelf", [broken, missing, signed], kind)
    negative = create("torch.aten.lt.Scalar", [x, number(0.0)], with_dtype(x, "i1"))
    made = create("torch.aten.where.self", [negative, signed, power], kind)
    zero = create("torch.aten.eq.Scalar", [y, number(0.0)], y_truth)
    return create("torch.aten.where.ScalarSelf", [zero, number(1.0), made], kind)


def _negative_power(operation: ir.Operation) -> None:
    value, by = operation.operands
    result, power = operation.results[0], constant(by)
    kind = dtype(value)
    if kind not in (*_FLOATS, *_HALVES) or not isinstance(power, (int, float)) or power >= 0:
        return
    if math.isinf(power) or power != int(power):
        return
    positive = convert(value, "f32" if kind in _HALVES else kind)
    if power != -1:
        positive = create(operation.name, [positive, number(-int(power))], positive.type)
    made = convert(create("torch.aten.reciprocal", [positive], positive.type), dtype(result))
    result.replace_all_uses_with(made)
    operation.erase()
