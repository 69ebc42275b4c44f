"""Sums of products of which one factor is smaller, over all combinations of dimensions."""

import itertools
from pathlib import Path

import pytest
import torch
from torch import nn

import lemurc

DIMS = [dims for n in (1, 2, 3) for dims in itertools.combinations(range(3), n)]


class Sums(nn.Module):
    def forward(self, w: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
        product = torch.exp(w) * (x - 1.0) ** 2
        return [product.sum(dims) for dims in DIMS] + [(w * x).mean()]


@pytest.mark.parametrize(
    "shape", [(16,), (5, 1), (5, 16), (3, 1, 1), (3, 1, 16), (3, 5, 1), (3, 5, 16)]
)
def test_equals_eager(shape: tuple[int, ...], tmp_path: Path) -> None:
    torch.manual_seed(0)
    result = lemurc.compile(
        Sums(), (torch.randn(shape), torch.randn(3, 5, 16)), output=tmp_path / "m.lemur"
    )
    assert {verdict.status for verdict in result.verdicts} == {"verified"}
