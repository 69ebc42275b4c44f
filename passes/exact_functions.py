"""Functions of floats written so that torch-mlir and IREE compute them right.

tanh(x)           -> the sign of x times 1 - 2 e / (1 + e), e = exp(-2 |x|), and near 0
                     expm1(2 x) / (expm1(2 x) + 2)
                     (IREE's stops short of 1, which asin or log1p then shows)
pow(x, y)         -> see exact_powers.py
lt(x : f32, 0)    -> lt(x, 0.0)                            (torch-mlir: a crash in folding)
"""

from torch_mlir import ir

from lemurc.passes import exact_powers
from lemurc.passes.torch_constants import constant, dtype
from lemurc.passes.torch_operations import create, number, with_dtype

_FLOATS = ("f32", "f64")
_COMPARISONS = frozenset(f"torch.aten.{name}.Scalar" for name in "lt le gt ge eq ne".split())


def rewrite_exactly(operation: ir.Operation) -> None:
    """Replace `operation` when it is one of the above."""
    if operation.name == "torch.aten.tanh" and dtype(operation.results[0]) in _FLOATS:
        _tanh(operation)
    elif operation.name == "torch.aten.pow.Tensor_Scalar":
        exact_powers.constant_power(operation)
    elif operation.name == "torch.aten.pow.Tensor_Tensor":
        exact_powers.power_of_tensors(operation)
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
