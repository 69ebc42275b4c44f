"""Sums over any dimensions on Vulkan, where threads of a workgroup share memory."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import lemurc

SHAPE = (2, 3, 4, 5)
DIMS = [dims for rank in (1, 2, 3, 4) for dims in itertools.combinations(range(4), rank)]


class Reductions(nn.Module):
    def forward(self, x: Any) -> Any:
        return [
            [x.sum(dims), x.mean(dims), x.amax(dims), x.var(dims), x.half().sum(dims)]
            for dims in DIMS
        ]


@pytest.mark.vulkan
def test_over_every_choice_of_dimensions(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(SHAPE) * 3
    path = tmp_path / "m.lemur"
    lemurc.compile(Reductions(), (x,), output=path, targets="vulkan:host", verify=False)
    wanted = Reductions()(x)
    with lemurc.load(path, devices=["vulkan"]) as session:
        for _ in range(5):  # what races is right at times
            for ours, eager in zip(session(x), wanted, strict=True):
                for got, expected in zip(ours, eager, strict=True):
                    torch.testing.assert_close(torch.as_tensor(got), expected)


class Products(nn.Module):
    """Sums of products whose second factor broadcasts; no two share what they reduce."""

    def forward(self, x: Any, factors: Any) -> Any:
        return [
            [((x + number) * y).sum(dims), ((x - number) * y).abs().amax(dims)]
            for number, (y, dims) in enumerate(itertools.product(factors, OF_THREE))
        ]


OF_THREE = [dims for rank in (2, 3) for dims in itertools.combinations(range(3), rank)]


@pytest.mark.vulkan
@pytest.mark.parametrize("shape", [(2, 3, 8), (2, 2, 4), (3, 4, 8)], ids=str)
def test_of_what_broadcasts(shape: tuple[int, int, int], tmp_path: Path) -> None:
    torch.manual_seed(0)
    a, b, c = shape
    x = torch.randn(shape)
    factors = [torch.randn(sizes) for sizes in ((a, 1, c), (1, b, 1), (a, b, 1), (1, b, c))]
    path = tmp_path / "m.lemur"
    lemurc.compile(Products(), (x, factors), output=path, targets="vulkan:host", verify=False)
    with lemurc.load(path, devices=["vulkan"]) as session:
        pairs = zip(session(x, factors), Products()(x, factors), strict=True)
        for ours, eager in pairs:
            for got, expected in zip(ours, eager, strict=True):
                torch.testing.assert_close(torch.as_tensor(got), expected, rtol=1e-5, atol=1e-4)
