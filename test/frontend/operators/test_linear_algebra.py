"""Factorizations and solves: each decomposition against PyTorch's, then compiled."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import lemurc
from lemurc.frontend.own_decompositions import own_decompositions

aten = torch.ops.aten
TABLE = own_decompositions()
SHAPES = [(1, 1), (2, 2), (7, 7), (2, 3, 4, 4), (20, 20)]


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def positive(x: torch.Tensor) -> torch.Tensor:
    return x @ x.mT + torch.eye(x.shape[-1], dtype=x.dtype)


def equal(mine: Any, theirs: Any) -> None:
    torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-10, check_stride=False)


SQUARE: dict[str, Callable[[torch.Tensor], tuple[Any, Any]]] = {
    "inv": lambda x: (TABLE[aten.linalg_inv.default](x), torch.linalg.inv(x)),
    "det": lambda x: (TABLE[aten.linalg_det.default](x), torch.linalg.det(x)),
    "slogdet": lambda x: (TABLE[aten.linalg_slogdet.default](x), tuple(torch.linalg.slogdet(x))),
    "lu": lambda x: (TABLE[aten.linalg_lu.default](x), tuple(torch.linalg.lu(x))),
    "lu_factor": lambda x: (
        TABLE[aten.linalg_lu_factor_ex.default](x),
        tuple(torch.linalg.lu_factor_ex(x)),
    ),
    "cholesky": lambda x: (
        TABLE[aten.linalg_cholesky.default](positive(x)),
        torch.linalg.cholesky(positive(x)),
    ),
    "upper": lambda x: (
        TABLE[aten.cholesky.default](positive(x), True),
        torch.linalg.cholesky(positive(x), upper=True),
    ),
    "qr": lambda x: (TABLE[aten.linalg_qr.default](x), tuple(torch.linalg.qr(x))),
    "exp": lambda x: (TABLE[aten.linalg_matrix_exp.default](x), torch.matrix_exp(x)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", SQUARE)
def test_square_matrices(kind: str, shape: tuple[int, ...]) -> None:
    equal(*SQUARE[kind](drawn(*shape)))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 1)])
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_rectangular_matrices(shape: tuple[int, ...], mode: str) -> None:
    x = drawn(*shape)
    equal(TABLE[aten.linalg_qr.default](x, mode), tuple(torch.linalg.qr(x, mode)))
    equal(TABLE[aten.linalg_lu.default](x), tuple(torch.linalg.lu(x)))


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("unitriangular", [True, False])
def test_triangular_solve(left: bool, upper: bool, unitriangular: bool) -> None:
    a, b = drawn(2, 4, 4), drawn(4, 4)
    options = {"upper": upper, "left": left, "unitriangular": unitriangular}
    a = a + 3 * torch.eye(4, dtype=a.dtype)  # the half that must not be read stays
    equal(
        TABLE[aten.linalg_solve_triangular.default](a, b, **options),
        torch.linalg.solve_triangular(a.triu() if upper else a.tril(), b, **options),
    )


@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("upper", [True, False])
def test_older_triangular_solve(transpose: bool, upper: bool) -> None:
    a, b = drawn(4, 4) + 3 * torch.eye(4, dtype=torch.float64), drawn(4, 2)
    mine = TABLE[aten.triangular_solve.default](b, a, upper, transpose)
    equal(mine, tuple(torch.triangular_solve(b, a, upper, transpose)))


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_lu_solve(left: bool, adjoint: bool) -> None:
    lu, pivots = torch.linalg.lu_factor(drawn(3, 4, 4))
    b = drawn(3, 4, 4)
    options = {"left": left, "adjoint": adjoint}
    mine = TABLE[aten.linalg_lu_solve.default](lu, pivots, b, **options)
    equal(mine, torch.linalg.lu_solve(lu, pivots, b, **options))


def test_solve_takes_vectors_and_matrices() -> None:
    solve = TABLE[aten.linalg_solve.default]
    a = drawn(2, 3, 3)
    for b in (drawn(2, 3), drawn(2, 3, 5), drawn(3, 1), drawn(2, 3, 3)):
        equal(solve(a, b), torch.linalg.solve(a, b))
    equal(solve(a, drawn(5, 3), left=False), torch.linalg.solve(a, drawn(5, 3), left=False))


def test_cholesky_solve_and_inverse() -> None:
    factor = torch.linalg.cholesky(positive(drawn(4, 4)))
    for upper in (False, True):
        held = factor.mT if upper else factor
        mine = TABLE[aten.cholesky_solve.default](drawn(4, 2), held, upper)
        equal(mine, torch.cholesky_solve(drawn(4, 2), held, upper))
        mine = TABLE[aten.cholesky_inverse.default](held, upper)
        equal(mine, torch.cholesky_inverse(held, upper))


def test_what_cannot_be_factored_is_said() -> None:
    singular = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
    _, _, info = TABLE[aten.linalg_lu_factor_ex.default](singular)
    assert info.item() == 2
    assert TABLE[aten.linalg_det.default](singular).item() == 0
    _, info = TABLE[aten.linalg_cholesky_ex.default](-singular)
    assert info.item() == torch.linalg.cholesky_ex(-singular).info.item() == 1


class Everything(nn.Module):
    """Each algorithm once; the permutation has zeros where pivots would be without exchanges."""

    def forward(self, p: Any, x: Any, b: Any) -> Any:
        spd = x @ x.mT + torch.eye(4)
        return (
            torch.linalg.det(p),
            torch.linalg.slogdet(x),
            torch.linalg.solve(p, b),
            torch.inverse(spd),
            torch.linalg.cholesky(spd),
            torch.linalg.qr(x),
            torch.matrix_exp(x),
            torch.block_diag(x[0], b),
        )


PERMUTATION = torch.tensor([[0.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])


def test_compiled(tmp_path: Path) -> None:
    x, b = drawn(2, 4, 4).float(), drawn(4, 3).float()
    result = lemurc.compile(
        Everything(), (PERMUTATION, x, b), targets="cpu", output=tmp_path / "a.lemur"
    )
    assert [verdict.status for verdict in result.verdicts] == ["verified"]
    expected = Everything()(PERMUTATION, 40 * x, b)
    with lemurc.load(result.path) as session:
        made = session(PERMUTATION.numpy(), 40 * x.numpy(), b.numpy())
        torch.testing.assert_close(torch.from_numpy(made[0]), expected[0])
        torch.testing.assert_close(torch.from_numpy(made[3]), expected[3], rtol=1e-3, atol=1e-4)
        with pytest.raises(lemurc.LemurcError, match="a matrix is singular"):
            session(torch.zeros(4, 4).numpy(), x.numpy(), b.numpy())
