"""Cholesky and QR factorizations, and the exponential of a matrix.

A = L L^T     LAPACK's potf2, one column after the other
A = Q R       LAPACK's geqr2: Householder reflections, with the signs it gives R
exp(A)        Taylor's series of degree 18 of A / 2^s, squared s times
              (P. Bader, S. Blanes, F. Casas, Mathematics 7(12), 2019, 1174)
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lemurc.frontend.operators.column_loops import column, loop, of_real_matrices, places, require
from lemurc.frontend.operators.linear_systems import solve_triangular

_aten = torch.ops.aten
_DEGREE = 18
_RADIUS = {torch.float32: 3.0, torch.float64: 1.0}
"""Of the norms for which the series has the type's precision."""


def cholesky_ex(matrix: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    """The factor, and the order (from 1) of the first minor that is not positive."""
    size = matrix.shape[-1]
    batch = matrix.shape[:-2]

    def eliminate(i: Tensor, lower: Tensor, info: Tensor) -> tuple[Tensor, ...]:
        at = places(size, lower)
        pivot = column(lower, i).index_select(-1, i.reshape(1))
        positive = pivot > 0
        root = torch.where(positive, pivot, 1.0).sqrt()
        factors = torch.where(at > i, column(lower, i) / root, 0.0)
        factors = torch.where(at == i, root, factors)
        rest = (at > i).unsqueeze(-1) & (at > i)
        product = factors.unsqueeze(-1) * factors.unsqueeze(-2)
        lower = torch.where(rest, lower - product, lower)
        lower = torch.where(at == i, factors.unsqueeze(-1), lower)
        first = (info == 0) & ~positive.squeeze(-1)
        return lower, torch.where(first, (i + 1).to(torch.int32), info)

    info = torch.zeros(batch, dtype=torch.int32, device=matrix.device)
    begin = matrix.mT if upper else matrix
    lower, info = loop(size, eliminate, (begin.tril(), info), ())
    if check_errors:
        require(info == 0, "linalg.cholesky: a matrix is not positive-definite")
    return (lower.mT if upper else lower), info


def linalg_cholesky(matrix: Tensor, *, upper: bool = False) -> Any:
    return cholesky_ex(matrix, upper=upper, check_errors=True)[0]


def cholesky(matrix: Tensor, upper: bool = False) -> Any:
    return linalg_cholesky(matrix, upper=upper)


def cholesky_solve(right: Tensor, factor: Tensor, upper: bool = False) -> Any:
    lower = factor.mT if upper else factor
    half = solve_triangular(lower, right, upper=False)
    return solve_triangular(lower.mT, half, upper=True)


def cholesky_inverse(factor: Tensor, upper: bool = False) -> Any:
    ones = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    return cholesky_solve(ones, factor, upper)


def qr(matrix: Tensor, mode: str = "reduced") -> Any:
    """Q and R; of mode "r", Q is empty."""
    rows, columns = matrix.shape[-2:]
    batch = matrix.shape[:-2]

    def reflect(i: Tensor, q: Tensor, r: Tensor) -> tuple[Tensor, ...]:
        at = places(rows, r)
        x = torch.where(at >= i, column(r, i), 0.0)
        alpha = x.index_select(-1, i.reshape(1))
        tail = torch.where(at > i, x, 0.0).square().sum(-1, keepdim=True)
        moved = tail > 0
        norm = (tail + alpha.square()).sqrt()
        beta = torch.where(alpha < 0, norm, -norm)
        scale = torch.where(moved, alpha - beta, 1.0)
        v = torch.where(at == i, 1.0, x / scale).unsqueeze(-1)
        tau = torch.where(moved, (beta - alpha) / torch.where(moved, beta, 1.0), 0.0)
        tau = tau.unsqueeze(-1)
        r = r - tau * v * (v * r).sum(-2, keepdim=True)
        q = q - tau * (q * v.mT).sum(-1, keepdim=True) * v.mT
        return q, r

    ones = torch.eye(rows, dtype=matrix.dtype, device=matrix.device).expand(*batch, rows, rows)
    q, r = loop(min(rows, columns), reflect, (ones, matrix), ())
    r = r.triu()
    if mode != "complete":
        q, r = q[..., : min(rows, columns)], r[..., : min(rows, columns), :]
    return (matrix.new_empty(0) if mode == "r" else q), r


def matrix_exp(matrix: Tensor) -> Any:
    norm = matrix.abs().sum(-2).amax(-1)
    halvings = (norm / _RADIUS[matrix.dtype]).log2().ceil().clamp(0, 1000).to(torch.int64)
    halvings = halvings.unsqueeze(-1).unsqueeze(-1)
    scaled = matrix * torch.pow(0.5, halvings.to(matrix.dtype))
    ones = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    series = ones.expand(matrix.shape) / math.factorial(_DEGREE)
    for power in reversed(range(_DEGREE)):
        series = scaled @ series + ones / math.factorial(power)

    def square(i: Tensor, x: Tensor, halvings: Tensor) -> tuple[Tensor]:
        return (torch.where(i < halvings, x @ x, x),)

    (made,) = loop(halvings.amax(), square, (series,), (halvings,))
    return made


_TABLE: dict[Any, Callable[..., Any]] = {
    _aten.cholesky.default: cholesky,
    _aten.cholesky_inverse.default: cholesky_inverse,
    _aten.cholesky_solve.default: cholesky_solve,
    _aten.linalg_cholesky.default: linalg_cholesky,
    _aten.linalg_cholesky_ex.default: cholesky_ex,
    _aten.linalg_matrix_exp.default: matrix_exp,
    _aten.linalg_qr.default: qr,
}

TABLE = {overload: of_real_matrices(function) for overload, function in _TABLE.items()}
