"""Small questions that patterns on the `torch` dialect ask."""

import math
from typing import Any

from torch_mlir import ir

from lemurc.passes.torch_constants import UNKNOWN, constant, defining, dtype

CONVERSION = "torch.prims.convert_element_type"


class Refused(Exception):
    """A pattern that nearly matched, with the reason it did not."""


def made_by(value: ir.Value, *names: str) -> ir.Operation | None:
    """The operation that makes `value`, if it has one of `names`."""
    operation = defining(value)
    return operation if operation is not None and operation.name in names else None


def used_once(value: ir.Value) -> bool:
    return len(list(value.uses)) == 1


def number(value: ir.Value) -> float | None:
    """A constant int or float as a float."""
    found = constant(value)
    if found is UNKNOWN or isinstance(found, bool) or not isinstance(found, (int, float)):
        return None
    return float(found)


def through_conversion(value: ir.Value) -> ir.Value:
    """What a change of float type was made from, else `value`."""
    conversion = made_by(value, CONVERSION)
    if conversion is None or not dtype(conversion.operands[0]).lstrip("b").startswith("f"):
        return value
    return conversion.operands[0]


def close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=0.0)


def polynomial(value: ir.Value, variable: ir.Value, depth: int = 8) -> dict[int, float] | None:
    """`value` as coefficients by power of `variable`; None when it is something else.

    x + 0.044715 * x**3  ->  {1: 1.0, 3: 0.044715}, however it is written.
    """
    if value == variable:
        return {1: 1.0}
    operation = defining(value)
    if operation is None or depth == 0:
        return None
    operands, name = operation.operands, operation.name
    if name in ("torch.aten.mul.Tensor", "torch.aten.add.Tensor"):
        left = polynomial(operands[0], variable, depth - 1)
        right = polynomial(operands[1], variable, depth - 1)
        if left is None or right is None:
            return None
        if name == "torch.aten.mul.Tensor":
            return _product(left, right)
        alpha = number(operands[2])
        return None if alpha is None else _sum(left, _scaled(right, alpha))
    if name not in _BY_NUMBER:
        return None
    inner, by = polynomial(operands[0], variable, depth - 1), number(operands[1])
    if inner is None or by is None:
        return None
    return _by_number(name, inner, by, operands)


_BY_NUMBER = frozenset(
    {
        "torch.aten.mul.Scalar",
        "torch.aten.div.Scalar",
        "torch.aten.add.Scalar",
        "torch.aten.pow.Tensor_Scalar",
    }
)


def _by_number(
    name: str, inner: dict[int, float], by: float, operands: Any
) -> dict[int, float] | None:
    if name == "torch.aten.mul.Scalar":
        return _scaled(inner, by)
    if name == "torch.aten.div.Scalar":
        return _scaled(inner, 1 / by) if by else None
    if name == "torch.aten.add.Scalar":
        alpha = number(operands[2])
        return None if alpha is None else _sum(inner, {0: by * alpha})
    if by not in (2.0, 3.0):
        return None
    power = inner
    for _ in range(int(by) - 1):
        power = _product(power, inner)
    return power


def _product(left: dict[int, float], right: dict[int, float]) -> dict[int, float]:
    result: dict[int, float] = {}
    for p, a in left.items():
        for q, b in right.items():
            result[p + q] = result.get(p + q, 0.0) + a * b
    return result


def _sum(left: dict[int, float], right: dict[int, float]) -> dict[int, float]:
    return {p: left.get(p, 0.0) + right.get(p, 0.0) for p in {*left, *right}}


def _scaled(terms: dict[int, float], by: float) -> dict[int, float]:
    return {power: coefficient * by for power, coefficient in terms.items()}


def factors(value: ir.Value, depth: int = 4) -> tuple[float, list[ir.Value]]:
    """`value` as a number times tensors: 0.5 * x * (1 + t) -> 0.5, [x, 1 + t]."""
    operation = defining(value)
    if operation is not None and depth:
        if operation.name == "torch.aten.mul.Tensor":
            left, right = (factors(operand, depth - 1) for operand in operation.operands)
            return left[0] * right[0], left[1] + right[1]
        if operation.name in ("torch.aten.mul.Scalar", "torch.aten.div.Scalar"):
            by = number(operation.operands[1])
            if by:
                coefficient, tensors = factors(operation.operands[0], depth - 1)
                divides = operation.name == "torch.aten.div.Scalar"
                return (coefficient / by if divides else coefficient * by), tensors
    return 1.0, [value]
