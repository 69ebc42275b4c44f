"""What the decompositions of functions share: which type to compute in."""

import functools
from collections.abc import Callable
from typing import Any

import torch

Table = dict[Any, Callable[..., Any]]


def computed_in_float(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Tensors arrive as f32 or f64; the result has the type eager would give.

    Integers become PyTorch's default float, half precision is computed in f32.
    """

    @functools.wraps(function)
    def wrapped(*arguments: Any) -> torch.Tensor:
        tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
        result = tensors[0].dtype
        for tensor in tensors[1:]:
            result = torch.promote_types(result, tensor.dtype)
        if not result.is_floating_point:
            result = torch.get_default_dtype()
        wide = torch.float64 if result is torch.float64 else torch.float32
        made = function(*(a.to(wide) if isinstance(a, torch.Tensor) else a for a in arguments))
        return made.to(result)

    return wrapped


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
