"""Our decompositions against the operators they replace."""

import pytest
import torch

from lemurc.frontend.own_decompositions import own_decompositions


@pytest.mark.parametrize(("bins", "low", "high"), [(4, 0.0, 3.0), (7, -1.0, 1.0)])
def test_histc(bins: int, low: float, high: float) -> None:
    values = torch.cat([torch.randn(50), torch.tensor([low, high, 0.0, 1.0, 2.0])])
    table = own_decompositions()
    mine = table[torch.ops.aten.histc.default](values, bins, low, high)
    torch.testing.assert_close(mine, torch.histc(values, bins, low, high))


@pytest.mark.parametrize("rows", [2, 9])
def test_grouped_products(rows: int) -> None:
    """Few rows gather weights, many go through all; the third expert gets none."""
    x, weights = torch.randn(rows, 5), torch.randn(4, 5, 3)
    ends = torch.tensor([1, rows - 1, rows - 1, rows])
    expected, start = torch.zeros(rows, 3), 0
    for expert, end in enumerate(ends.tolist()):
        expected[start:end] = x[start:end] @ weights[expert]
        start = end
    grouped = own_decompositions()[torch.ops.aten._grouped_mm.default]
    torch.testing.assert_close(grouped(x, weights, ends), expected)
