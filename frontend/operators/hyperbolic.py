"""Hyperbolic functions and their inverses, as near to eager for tiny and huge numbers.

IREE 3.13's own `sinh` is 7 % off near 0 and its `atanh` half wrong there; torch-mlir writes
asinh(x) as log(x + sqrt(x^2 + 1)), which is NaN at -inf and loses every digit before it.
"""

import math
from typing import Any

import torch

from lemurc.frontend.operators.floating import Table, computed_in_float

_LOG_2 = math.log(2.0)


def _huge(x: torch.Tensor) -> float:
    """From here on 1 is lost beside x^2."""
    return 1e9 if x.dtype is torch.float64 else 1e5


@computed_in_float
def sinh(x: torch.Tensor) -> torch.Tensor:
    z = torch.abs(x)
    small = torch.expm1(torch.clamp(z, max=1.0))
    near = 0.5 * (small + small / (small + 1.0))
    half = torch.exp(z - _LOG_2)
    value = torch.where(z < 1.0, near, half - 0.25 / half)
    return torch.where(x < 0, -value, torch.where(x == 0, x, value))


@computed_in_float
def cosh(x: torch.Tensor) -> torch.Tensor:
    half = torch.exp(torch.abs(x) - _LOG_2)
    return half + 0.25 / half


@computed_in_float
def tanh(x: torch.Tensor) -> Any:
    """In f64, where IREE's own loses digits near 0; of f32 see passes/exact_functions.py."""
    if x.dtype is not torch.float64:
        return NotImplemented
    less = torch.expm1(-2.0 * torch.abs(x))
    value = -less / (less + 2.0)
    return torch.where(x < 0, -value, torch.where(x == 0, x, value))


@computed_in_float
def asinh(x: torch.Tensor) -> torch.Tensor:
    z = torch.abs(x)
    square = z * z
    near = torch.log1p(z + square / (1.0 + torch.sqrt(1.0 + square)))
    value = torch.where(z > _huge(x), torch.log(z) + _LOG_2, near)
    return torch.where(x < 0, -value, torch.where(x == 0, x, value))


@computed_in_float
def acosh(x: torch.Tensor) -> torch.Tensor:
    over = x - 1.0
    near = torch.log1p(over + torch.sqrt(over * (x + 1.0)))
    value = torch.where(x > _huge(x), torch.log(x) + _LOG_2, near)
    return torch.where(x < 1.0, math.nan, value)


@computed_in_float
def atanh(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * (torch.log1p(x) - torch.log1p(-x))


_aten = torch.ops.aten
TABLE: Table = {
    _aten.acosh.default: acosh,
    _aten.asinh.default: asinh,
    _aten.atanh.default: atanh,
    _aten.cosh.default: cosh,
    _aten.sinh.default: sinh,
    _aten.tanh.default: tanh,
}
