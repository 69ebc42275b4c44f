"""Linear systems by elimination with partial pivoting, and what follows from it.

    P A = L U     then   A X = B   by   L Y = P^T B,  U X = Y

The steps are those of LAPACK's getf2 and trsm (E. Anderson et al., LAPACK Users' Guide).
What eager raises for a singular matrix is an assertion at run time.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lemurc.frontend.operators.column_loops import (
    column,
    loop,
    of_real_matrices,
    places,
    require,
    row,
)

_aten = torch.ops.aten


def lu_factor_ex(
    matrix: Tensor, *, pivot: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """L and U in one matrix, the row exchanged with each, and the first zero pivot (from 1)."""
    rows, columns = matrix.shape[-2:]
    batch = matrix.shape[:-2]

    def eliminate(i: Tensor, lu: Tensor, pivots: Tensor, info: Tensor) -> tuple[Tensor, ...]:
        row_at, column_at = places(rows, lu), places(columns, lu)
        if pivot:
            size = torch.where(row_at >= i, column(lu, i).abs(), -1.0)
            largest = size.argmax(-1).unsqueeze(-1)
            order = torch.where(row_at == i, largest, torch.where(row_at == largest, i, row_at))
            lu = lu.gather(-2, order.unsqueeze(-1).expand(lu.shape))
            exchanged = (largest + 1).to(torch.int32)
        else:
            exchanged = (i + 1).to(torch.int32).expand(*batch, 1)
        pivots = torch.where(places(pivots.shape[-1], lu) == i, exchanged, pivots)
        upper = row(lu, i)
        divisor = upper.index_select(-1, i.reshape(1))
        zero = divisor == 0
        factors = column(lu, i) / torch.where(zero, 1.0, divisor)
        below = (row_at > i).unsqueeze(-1)
        product = factors.unsqueeze(-1) * upper.unsqueeze(-2)
        lu = torch.where(below & (column_at > i), lu - product, lu)
        lu = torch.where(below & (column_at == i), factors.unsqueeze(-1), lu)
        first = (info == 0) & zero.squeeze(-1)
        return lu, pivots, torch.where(first, (i + 1).to(torch.int32), info)

    count = min(rows, columns)
    pivots = torch.zeros(*batch, count, dtype=torch.int32, device=matrix.device)
    info = torch.zeros(batch, dtype=torch.int32, device=matrix.device)
    lu, pivots, info = loop(count, eliminate, (matrix, pivots, info), ())
    if check_errors:
        require(info == 0, "linalg.lu_factor: a matrix is singular")
    return lu, pivots, info


def lu_factor(matrix: Tensor, *, pivot: bool = True) -> Any:
    return lu_factor_ex(matrix, pivot=pivot, check_errors=True)[:2]


def _order(pivots: Tensor, rows: int) -> Tensor:
    """The rows of A in the order in which P A has them."""

    def exchange(i: Tensor, order: Tensor, pivots: Tensor) -> tuple[Tensor]:
        at = places(rows, order)
        other = pivots.index_select(-1, i.reshape(1)).to(torch.int64) - 1
        here = order.index_select(-1, i.reshape(1))
        there = order.gather(-1, other)
        return (torch.where(at == i, there, torch.where(at == other, here, order)),)

    begin = places(rows, pivots).expand(*pivots.shape[:-1], rows)
    (order,) = loop(pivots.shape[-1], exchange, (begin,), (pivots,))
    return order


def solve_triangular(
    matrix: Tensor, right: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X of A X = B, or of X A = B, reading one triangle of A."""
    if not left:
        turned = solve_triangular(matrix.mT, right.mT, upper=not upper, unitriangular=unitriangular)
        return turned.mT
    size = matrix.shape[-1]
    batch = torch.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    matrix = matrix.expand(*batch, size, size)
    right = right.expand(*batch, *right.shape[-2:])

    def substitute(i: Tensor, x: Tensor, matrix: Tensor) -> tuple[Tensor]:
        i = size - 1 - i if upper else i
        at = places(size, x).unsqueeze(-1)
        known = row(x, i).unsqueeze(-2)
        factors = column(matrix, i).unsqueeze(-1)
        if not unitriangular:
            known = known / factors.index_select(-2, i.reshape(1))
        rest = at < i if upper else at > i
        x = torch.where(rest, x - factors * known, x)
        return (torch.where(at == i, known, x),)

    (x,) = loop(size, substitute, (right,), (matrix,))
    return x


def triangular_solve(
    right: Tensor,
    matrix: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Any:
    turned = matrix.mT if transpose else matrix
    x = solve_triangular(turned, right, upper=upper != transpose, unitriangular=unitriangular)
    return x, matrix.expand(*x.shape[:-2], *matrix.shape[-2:]).clone()


def _solved(lu: Tensor, pivots: Tensor, right: Tensor) -> Tensor:
    order = _order(pivots, lu.shape[-1]).unsqueeze(-1)
    batch = torch.broadcast_shapes(lu.shape[:-2], right.shape[:-2])
    shape = (*batch, *right.shape[-2:])
    exchanged = right.expand(shape).gather(-2, order.expand(shape))
    half = solve_triangular(lu, exchanged, upper=False, unitriangular=True)
    return solve_triangular(lu, half, upper=True)


def lu_solve(
    lu: Tensor, pivots: Tensor, right: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    if not left:  # X A = B is A^T X^T = B^T
        return lu_solve(lu, pivots, right.mT, adjoint=not adjoint).mT
    if not adjoint:
        return _solved(lu, pivots, right)
    half = solve_triangular(lu.mT, right, upper=False)
    half = solve_triangular(lu.mT, half, upper=True, unitriangular=True)
    back = _order(pivots, lu.shape[-1]).argsort(-1).unsqueeze(-1)
    return half.gather(-2, back.expand(half.shape))


def linalg_lu(matrix: Tensor, *, pivot: bool = True) -> Any:
    lu, pivots, _ = lu_factor_ex(matrix, pivot=pivot)
    return lu_unpack(lu, pivots)


def lu_unpack(
    lu: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> Any:
    """P, L and U; what is not asked for is empty."""
    rows, columns = lu.shape[-2:]
    inner = min(rows, columns)
    none = lu.new_empty(0)
    exchange = lower = upper = none
    if unpack_data:
        ones = torch.eye(rows, inner, dtype=lu.dtype, device=lu.device)
        lower = lu[..., :inner].tril(-1) + ones
        upper = lu[..., :inner, :].triu()
    if unpack_pivots:
        order = _order(pivots, rows)
        exchange = (places(rows, lu).unsqueeze(-1) == order.unsqueeze(-2)).to(lu.dtype)
    return exchange, lower, upper


def solve_ex(
    matrix: Tensor, right: Tensor, *, left: bool = True, check_errors: bool = False
) -> Any:
    """X, the factors, the exchanges and the first zero pivot, as `_linalg_solve_ex`."""
    vectors = right.dim() == 1 or (
        matrix.dim() - 1 == right.dim() and right.shape == matrix.shape[:-1]
    )
    lu, pivots, info = lu_factor_ex(matrix)
    if check_errors:
        require(info == 0, "linalg.solve: a matrix is singular")
    columns = right.unsqueeze(-1) if vectors else right
    x = lu_solve(lu, pivots, columns, left=left or vectors)
    return (x.squeeze(-1) if vectors else x), lu, pivots, info


def linalg_solve_ex(
    matrix: Tensor, right: Tensor, *, left: bool = True, check_errors: bool = False
) -> Any:
    made = solve_ex(matrix, right, left=left, check_errors=check_errors)
    return (made[0], made[3])


def linalg_solve(matrix: Tensor, right: Tensor, *, left: bool = True) -> Any:
    return solve_ex(matrix, right, left=left, check_errors=True)[0]


def inv_ex(matrix: Tensor, *, check_errors: bool = False) -> Any:
    lu, pivots, info = lu_factor_ex(matrix)
    if check_errors:
        require(info == 0, "linalg.inv: a matrix is singular")
    ones = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return _solved(lu, pivots, ones), info


def linalg_inv(matrix: Tensor) -> Any:
    return inv_ex(matrix, check_errors=True)[0]


def _exchanges_sign(pivots: Tensor, like: Tensor) -> Tensor:
    moved = (pivots != places(pivots.shape[-1], pivots) + 1).to(torch.int64).sum(-1)
    return (1 - 2 * (moved % 2)).to(like.dtype)


def det(matrix: Tensor) -> Any:
    """The determinant, the factors and the exchanges, as `_linalg_det`."""
    lu, pivots, _ = lu_factor_ex(matrix)
    diagonal = lu.diagonal(dim1=-2, dim2=-1)
    return diagonal.prod(-1) * _exchanges_sign(pivots, lu), lu, pivots


def linalg_det(matrix: Tensor) -> Any:
    return det(matrix)[0]


def slogdet(matrix: Tensor) -> Any:
    """Sign, logarithm, the factors and the exchanges, as `_linalg_slogdet`."""
    lu, pivots, _ = lu_factor_ex(matrix)
    diagonal = lu.diagonal(dim1=-2, dim2=-1)
    sign = diagonal.sign().prod(-1) * _exchanges_sign(pivots, lu)
    return sign, diagonal.abs().log().sum(-1), lu, pivots


def linalg_slogdet(matrix: Tensor) -> Any:
    return slogdet(matrix)[:2]


_TABLE: dict[Any, Callable[..., Any]] = {
    _aten._linalg_det.default: det,
    _aten._linalg_slogdet.default: slogdet,
    _aten._linalg_solve_ex.default: solve_ex,
    _aten.inverse.default: linalg_inv,
    _aten.linalg_det.default: linalg_det,
    _aten.linalg_inv.default: linalg_inv,
    _aten.linalg_inv_ex.default: inv_ex,
    _aten.linalg_lu.default: linalg_lu,
    _aten.linalg_lu_factor.default: lu_factor,
    _aten.linalg_lu_factor_ex.default: lu_factor_ex,
    _aten.linalg_lu_solve.default: lu_solve,
    _aten.linalg_slogdet.default: linalg_slogdet,
    _aten.linalg_solve.default: linalg_solve,
    _aten.linalg_solve_ex.default: linalg_solve_ex,
    _aten.linalg_solve_triangular.default: solve_triangular,
    _aten.lu_unpack.default: lu_unpack,
    _aten.triangular_solve.default: triangular_solve,
}

TABLE = {overload: of_real_matrices(function) for overload, function in _TABLE.items()}
