"""Searching, order statistics and distances against eager, ties and NaN among them."""

from typing import Any

import pytest
import torch

from lemurc.frontend.own_decompositions import own_decompositions

aten = torch.ops.aten
TABLE = own_decompositions()
TIES = torch.tensor([[2.0, 1.0, 2.0, 0.0], [3.0, torch.nan, 1.0, 3.0], [0.0, 0.0, 0.0, 0.0]])


@pytest.mark.parametrize("right", [False, True])
def test_search(right: bool) -> None:
    edges = torch.tensor([-1.0, 0.0, 0.5, 2.0])
    values = torch.tensor([[-2.0, -1.0, 0.0], [0.3, 5.0, torch.nan]])
    mine = TABLE[aten.searchsorted.Tensor](edges, values, right=right, out_int32=True)
    expected = torch.searchsorted(edges, values, right=right, out_int32=True)
    torch.testing.assert_close(mine, expected, rtol=0, atol=0)
    mine = TABLE[aten.bucketize.Tensor](values, edges, right=right)
    assert torch.equal(mine, torch.bucketize(values, edges, right=right))
    rows = torch.randn(2, 6).sort(-1)[0]
    mine = TABLE[aten.searchsorted.Tensor](rows, values, right=right)
    assert torch.equal(mine, torch.searchsorted(rows, values, right=right))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("size", [1, 2, 5, 8, 31])
def test_searchsorted_of_what_is_not_sorted(size: int, right: bool) -> None:
    generator = torch.Generator().manual_seed(size)
    sequence = torch.randn(3, size, generator=generator)
    sequence[0, 0] = torch.nan
    values = torch.cat([torch.randn(3, 20, generator=generator), sequence], -1)
    mine = TABLE[aten.searchsorted.Tensor](sequence, values, right=right)
    assert torch.equal(mine, torch.searchsorted(sequence, values, right=right))
    mine = TABLE[aten.searchsorted.Tensor](sequence[1], values, right=right)
    assert torch.equal(mine, torch.searchsorted(sequence[1], values, right=right))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("operator", [aten.cummax.default, aten.cummin.default], ids=str)
def test_running_extremes(operator: Any, dim: int) -> None:
    for mine, expected in zip(TABLE[operator](TIES, dim), operator(TIES, dim), strict=True):
        torch.testing.assert_close(mine, expected, equal_nan=True)


@pytest.mark.parametrize("dim", [0, 1])
def test_order_statistics(dim: int) -> None:
    for operator in (aten.median.dim, aten.nanmedian.dim):
        for keep in (False, True):
            mine, expected = TABLE[operator](TIES, dim, keep)[0], operator(TIES, dim, keep)[0]
            torch.testing.assert_close(mine, expected, equal_nan=True)
    whole = torch.tensor([[2, 1, 2, 0, 1], [3, 1, 1, 3, 3]])
    for mine, expected in zip(TABLE[aten.mode.default](whole, dim), whole.mode(dim), strict=True):
        assert torch.equal(mine, expected)


@pytest.mark.parametrize("range_", [(0, 0), (-1, 1)])
def test_histogram(range_: tuple[float, float]) -> None:
    values = torch.cat([torch.randn(50), torch.tensor([-1.0, 0.0, 1.0])])
    for given in (values, values * 0):
        mine = TABLE[aten.histc.default](given, 6, *range_)
        torch.testing.assert_close(mine, torch.histc(given, 6, *range_))


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, torch.inf])
def test_distances(p: float) -> None:
    left, right = torch.randn(2, 4, 6), torch.randn(2, 3, 6)
    mine = TABLE[aten._cdist_forward.default](left, right, p, None)
    torch.testing.assert_close(mine, torch.cdist(left, right, p=p))
    mine = TABLE[aten._pdist_forward.default](left[0], p)
    torch.testing.assert_close(mine, torch.nn.functional.pdist(left[0], p))


def test_distances_of_close_points_far_out() -> None:
    """Where the product form of eager cancels."""
    left = torch.full((30, 4), 1000.0) + torch.rand(30, 4)
    mine = TABLE[aten._cdist_forward.default](left, left[:26] + 1e-3, 2.0, None)
    wide = torch.cdist(
        left.double(), (left[:26] + 1e-3).double(), compute_mode="donot_use_mm_for_euclid_dist"
    )
    torch.testing.assert_close(mine.double(), wide, rtol=1e-5, atol=1e-7)
