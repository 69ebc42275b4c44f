"""Splitting into pieces and joining them in another order.

torch-mlir refuses pieces that are not all equal, and rolls wrong by more than the size.
"""

import functools
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


def roll(values: torch.Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> torch.Tensor:
    if not dims:
        return roll(values.reshape(-1), shifts, [0]).reshape(values.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        length = values.shape[dim]
        if isinstance(length, int):
            start = -shift % length if length else 0
            if not start:
                continue
            pieces = [values.narrow(dim, start, length - start), values.narrow(dim, 0, start)]
            values = torch.cat(pieces, dim)
        else:
            places = (torch.arange(length) - shift) % length
            values = values.index_select(dim, places)
    return values


def block_diag(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """PyTorch's own pads with matrices without columns, which torch-mlir does not make."""
    blocks = [part.reshape(1, -1) if part.dim() < 2 else part for part in parts]
    dtype = functools.reduce(torch.promote_types, (block.dtype for block in blocks))
    width = sum(block.shape[1] for block in blocks)
    rows, start = [], 0
    for block in blocks:
        end = start + block.shape[1]
        rows.append(torch.nn.functional.pad(block.to(dtype), (start, width - end)))
        start = end
    return torch.cat(rows)


TABLE: Table = {
    torch.ops.aten.block_diag.default: block_diag,
    torch.ops.aten.roll.default: roll,
    torch.ops.aten.split.Tensor: split,
    torch.ops.aten.split_with_sizes.default: split_with_sizes,
}
