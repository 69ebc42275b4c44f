"""Norms and pairwise distances, from differences: products of sizes would cancel."""

import math

import torch

from lemurc.frontend.operators.floating import HALVES, Table


def cdist(
    left: torch.Tensor, right: torch.Tensor, p: float, compute_mode: int | None = None
) -> torch.Tensor:
    return _norm(left.unsqueeze(-2) - right.unsqueeze(-3), p)


def pdist(points: torch.Tensor, p: float = 2.0) -> torch.Tensor:
    first, second = torch.triu_indices(points.shape[0], points.shape[0], 1).unbind(0)
    return _norm(points[first] - points[second], p)


def dist(left: torch.Tensor, right: torch.Tensor, p: float = 2.0) -> torch.Tensor:
    return _norm((left - right).flatten(), p)


def pairwise_distance(
    left: torch.Tensor,
    right: torch.Tensor,
    p: float = 2.0,
    eps: float = 1e-6,
    keepdim: bool = False,
) -> torch.Tensor:
    return torch.linalg.vector_norm(left - right + eps, p, -1, keepdim)


def _norm(difference: torch.Tensor, p: float) -> torch.Tensor:
    size = torch.abs(difference)
    if p == 0:
        return (size != 0).sum(-1).to(difference.dtype)
    if p == 1:
        return size.sum(-1)
    if p == 2:
        return torch.sqrt((size * size).sum(-1))
    if p == math.inf:
        return size.amax(-1)
    return torch.pow(torch.pow(size, p).sum(-1), 1.0 / p)


def linalg_norm(
    values: torch.Tensor,
    ord: float | None = None,
    dim: list[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Norms of vectors; those of matrices other than Frobenius' need singular values."""
    if ord is None:
        ord = 2.0
        if dim is None:
            flat = torch.linalg.vector_norm(values.flatten(), 2.0, dtype=dtype)
            return flat.view([1] * values.dim()) if keepdim else flat
    elif (dim is None and values.dim() == 2) or (dim is not None and len(dim) == 2):
        axes = [-2, -1] if dim is None else list(dim)
        return torch.linalg.matrix_norm(values, ord, axes, keepdim, dtype=dtype)
    return torch.linalg.vector_norm(values, ord, dim, keepdim, dtype=dtype)


def vector_norm(
    values: torch.Tensor,
    ord: float = 2.0,
    dim: list[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Sums of halves are of f32, as PyTorch's are; torch-mlir's lose all that is small beside
    them."""
    result = dtype or values.dtype
    if HALVES.isdisjoint((values.dtype, result)):
        return NotImplemented
    wide = torch.linalg.vector_norm(values.to(torch.float32), ord, dim, keepdim)
    return wide.to(result)


TABLE: Table = {
    torch.ops.aten._cdist_forward.default: cdist,
    torch.ops.aten._pdist_forward.default: pdist,
    torch.ops.aten.dist.default: dist,
    torch.ops.aten.linalg_norm.default: linalg_norm,
    torch.ops.aten.pairwise_distance.default: pairwise_distance,
    torch.ops.aten.linalg_vector_norm.default: vector_norm,
}
