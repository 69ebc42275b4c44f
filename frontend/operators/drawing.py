"""Random draws that torch-mlir refuses or gets wrong, from uniform and normal ones.

The generator is torch-mlir's: a 64-bit linear congruential sequence whose position is
state of the loaded module, so two calls differ, and a module loaded anew repeats itself.
"""

import math
from typing import Any

import torch

from lemurc.frontend.operators.floating import Table


def multinomial(
    weights: torch.Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None
) -> torch.Tensor:
    """Never an entry of weight 0: its interval of the cumulative sum is empty."""
    wide = weights if weights.dtype is torch.float64 else weights.to(torch.float32)
    entries = weights.shape[-1]
    if replacement or num_samples == 1:
        ends = torch.cumsum(wide, -1)
        drawn = torch.rand([*weights.shape[:-1], num_samples], dtype=wide.dtype) * ends[..., -1:]
        found = (ends.unsqueeze(-2) <= drawn.unsqueeze(-1)).sum(-1)
        places = torch.where(wide > 0, torch.arange(entries), 0)
        return torch.minimum(found, places.amax(-1, keepdim=True))
    waiting = wide / _exponential(wide)  # the first of exponential races win
    return torch.topk(waiting, num_samples, -1)[1]


def _exponential(like: torch.Tensor) -> torch.Tensor:
    return -torch.log(1.0 - torch.rand(like.shape, dtype=like.dtype)).clamp(
        max=-torch.finfo(like.dtype).tiny
    )


def randperm(n: int, **options: Any) -> torch.Tensor:
    return torch.argsort(torch.rand(n)).to(options.get("dtype") or torch.int64)


def normal(mean: Any, std: Any = 1.0, *, generator: Any = None) -> torch.Tensor:
    tensors = [item for item in (mean, std) if isinstance(item, torch.Tensor)]
    shape = torch.broadcast_shapes(*(tensor.shape for tensor in tensors))
    return (torch.randn(shape, dtype=tensors[0].dtype) * std + mean).to(tensors[0].dtype)


def randint_like(values: torch.Tensor, low: int, high: int | None = None, **options: Any) -> Any:
    if high is None:
        low, high = 0, low
    dtype = options.get("dtype") or values.dtype
    return torch.randint(low, high, values.shape).to(dtype)


def cauchy(
    values: torch.Tensor, median: float = 0, sigma: float = 1, *, generator: Any = None
) -> torch.Tensor:
    angle = math.pi * (torch.rand(values.shape, dtype=values.dtype) - 0.5)
    return median + sigma * torch.tan(angle)


def log_normal(
    values: torch.Tensor, mean: float = 1, std: float = 2, *, generator: Any = None
) -> torch.Tensor:
    return torch.exp(torch.randn(values.shape, dtype=values.dtype) * std + mean)


def geometric(values: torch.Tensor, p: float, *, generator: Any = None) -> torch.Tensor:
    drawn = torch.log(1.0 - torch.rand(values.shape, dtype=torch.float32)) / math.log1p(-p)
    return torch.ceil(drawn).clamp(min=1.0).to(values.dtype)


_aten = torch.ops.aten
TABLE: Table = {
    _aten.cauchy.default: cauchy,
    _aten.geometric.default: geometric,
    _aten.log_normal.default: log_normal,
    _aten.multinomial.default: multinomial,
    _aten.normal.Tensor_Tensor: normal,
    _aten.normal.Tensor_float: normal,
    _aten.normal.float_Tensor: normal,
    _aten.randint_like.default: randint_like,
    _aten.randint_like.low_dtype: randint_like,
    _aten.randperm.default: randperm,
}
