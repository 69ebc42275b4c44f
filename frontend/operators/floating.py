"""What the decompositions of functions share: which type to compute in."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

Table = dict[Any, Callable[..., Any]]

HALVES = frozenset((torch.float16, torch.bfloat16))


def computed_in_float(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """Tensors arrive as f32 or f64; the result has the type eager would give.

    Integers become PyTorch's default float, half precision is computed in f32.
    """

    @functools.wraps(function)
    def wrapped(*arguments: Any) -> Any:
        tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
        if any(tensor.is_complex() for tensor in tensors):
            return NotImplemented  # see complex_pairs.py
        result = float_result(*tensors)
        wide = torch.float64 if result is torch.float64 else torch.float32
        made = function(
            *(a.to(result).to(wide) if isinstance(a, torch.Tensor) else a for a in arguments)
        )
        return made if made is NotImplemented else made.to(result)

    return wrapped


def float_result(*tensors: torch.Tensor) -> torch.dtype:
    """The type eager gives: tensors of rank 0 only decide between integers and floats."""
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND.INT_TO_FLOAT
    dtype: torch.dtype = elementwise_dtypes(*tensors, type_promotion_kind=kind)[1]
    return dtype


def polynomial(x: torch.Tensor, coefficients: tuple[float, ...]) -> torch.Tensor:
    """Horner's scheme; the coefficient of the highest power comes first."""
    total = torch.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def chebyshev(y: torch.Tensor, coefficients: tuple[float, ...]) -> torch.Tensor:
    """A Chebyshev series at y in [-1, 1] by Clenshaw; its first term counts half."""
    after = before = torch.zeros_like(y)
    for coefficient in reversed(coefficients[1:]):
        after, before = 2.0 * y * after - before + coefficient, after
    return y * after - before + coefficients[0] / 2
