"""Splitting into pieces; torch-mlir refuses those that are not all equal."""

from collections.abc import Sequence
from typing import Any

import torch

from lemurc.frontend.operators.floating import Table


def split(values: torch.Tensor, size: int, dim: int = 0) -> Any:
    length = values.shape[dim]
    if not isinstance(length, int) or not isinstance(size, int) or not size:
        return NotImplemented
    starts = range(0, max(length, 1), size)
    return [values.narrow(dim, start, min(size, length - start)) for start in starts]


def split_with_sizes(values: torch.Tensor, sizes: Sequence[int], dim: int = 0) -> Any:
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    return [values.narrow(dim, start, size) for start, size in zip(starts, sizes, strict=True)]


TABLE: Table = {
    torch.ops.aten.split.Tensor: split,
    torch.ops.aten.split_with_sizes.default: split_with_sizes,
}
