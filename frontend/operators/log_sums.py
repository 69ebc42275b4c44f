"""Logarithms of sums of exponentials.

torch-mlir takes the exponentials themselves, which overflow from 89 on in f32, and its
`logaddexp` of two infinities is NaN.
"""

import math

import torch

from lemurc.frontend.operators.floating import Table, computed_in_float


def _add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """log(exp(x) + exp(y)); equal infinities have no difference."""
    more = torch.log1p(torch.exp(-torch.abs(x - y)))
    return torch.maximum(x, y) + torch.where(x == y, math.log(2.0), more)


@computed_in_float
def logaddexp(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return _add(x, y)


@computed_in_float
def logaddexp2(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    more = torch.log1p(torch.exp2(-torch.abs(x - y))) * (1.0 / math.log(2.0))
    return torch.maximum(x, y) + torch.where(x == y, 1.0, more)


@computed_in_float
def logcumsumexp(values: torch.Tensor, dim: int) -> torch.Tensor:
    """A scan in log2(size) steps where the size is known."""
    if values.dim() == 0:
        return values.clone()
    moved = values.movedim(dim, -1)
    size = moved.shape[-1]
    if not isinstance(size, int):
        places = torch.arange(size)
        seen = places[:, None] >= places
        terms = torch.where(seen, moved[..., None, :], -math.inf)
        return torch.logsumexp(terms, -1).movedim(-1, dim)
    step = 1
    while step < size:
        sums = _add(moved[..., : size - step], moved[..., step:])
        moved = torch.cat([moved[..., :step], sums], -1)
        step *= 2
    return moved.movedim(-1, dim)


_aten = torch.ops.aten
TABLE: Table = {
    _aten.logaddexp.default: logaddexp,
    _aten.logaddexp2.default: logaddexp2,
    _aten.logcumsumexp.default: logcumsumexp,
}
