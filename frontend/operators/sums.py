"""Long sums in blocks, so that rounding errors do not add up along a million terms."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from lemurc.frontend.operators.floating import Table

_LONG = 16384
_BLOCK = 1024


def total(values: torch.Tensor, *, dtype: torch.dtype | None = None) -> Any:
    return total_dim(values, None, dtype=dtype)


def total_dim(
    values: torch.Tensor,
    dim: Sequence[int] | None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Any:
    """Block by block along each dimension; short sums stay one operator."""
    result = dtype or values.dtype
    dims = sorted(d % values.dim() for d in dim) if dim else list(range(values.dim()))
    lengths = [values.shape[d] for d in dims]
    if not (values.is_floating_point() and result.is_floating_point):
        return NotImplemented
    if any(not isinstance(length, int) for length in lengths) or math.prod(lengths) < _LONG:
        return NotImplemented
    wide = torch.float64 if torch.float64 in (result, values.dtype) else torch.float32
    partial = values.to(wide)
    for d in reversed(dims):
        partial = _along(partial, d)
    if keepdim:
        for d in dims:
            partial = partial.unsqueeze(d)
    return partial.to(result)


def _along(values: torch.Tensor, dim: int) -> torch.Tensor:
    while (length := values.shape[dim]) > _BLOCK:
        block = next((b for b in range(_BLOCK, 31, -1) if length % b == 0), 0)
        if not block:  # no divisor: all but the last few terms have one
            whole = length - length % _BLOCK
            rest = values.narrow(dim, whole, length - whole).sum(dim)
            return _along(values.narrow(dim, 0, whole), dim) + rest
        values = values.unflatten(dim, (length // block, block)).sum(dim + 1)
    return values.sum(dim)


def mean(values: torch.Tensor, *, dtype: torch.dtype | None = None) -> Any:
    return mean_dim(values, None, dtype=dtype)


def mean_dim(
    values: torch.Tensor,
    dim: Sequence[int] | None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Any:
    result = dtype or values.dtype
    wide = torch.float64 if torch.float64 in (result, values.dtype) else torch.float32
    summed = total_dim(values, dim, keepdim, dtype=wide)
    if summed is NotImplemented or not result.is_floating_point:
        return NotImplemented
    count = math.prod(values.shape[d] for d in (dim or range(values.dim())))
    return (summed / count).to(result)


def dot(left: torch.Tensor, right: torch.Tensor) -> Any:
    if left.is_complex() or right.is_complex() or not left.is_floating_point():
        return NotImplemented
    return total(left * right)


_aten = torch.ops.aten
TABLE: Table = {
    _aten.dot.default: dot,
    _aten.mean.default: mean,
    _aten.mean.dim: mean_dim,
    _aten.sum.default: total,
    _aten.sum.dim_IntList: total_dim,
}
