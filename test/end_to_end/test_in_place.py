"""Operators that IREE computes in place leave what others read as it is."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import lemurc
from lemurc.errors import VerificationError

I = torch.tensor  # noqa: E741


class Sorts(nn.Module):
    def forward(self, x: Any) -> Any:
        y = torch.tanh(x)
        return (
            torch.sort(x),
            torch.sort(x, descending=True),
            torch.sort(y)[0],
            torch.argsort(y, descending=True),
            y,
            torch.arange(x.shape[0]),
        )


class Places(nn.Module):
    """One sort, and the same places read elsewhere."""

    def forward(self, x: Any) -> Any:
        return torch.argsort(x), torch.arange(x.shape[0]) + 1, torch.arange(x.shape[0])


class Scatters(nn.Module):
    def forward(self, x: Any) -> Any:
        y, zeros = torch.tanh(x), torch.zeros_like(x)
        return (
            torch.scatter(y, 0, I([1, 2]), I([9.0, 8.0])),
            torch.scatter(y, 0, I([3]), I([7.0])),
            torch.scatter(zeros, 0, I([0]), I([5.0])),
            torch.scatter(zeros, 0, I([1]), I([4.0])),
            torch.cumsum(y, 0),
            zeros,
            y,
        )


class DynamicSorts(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.sort(x), torch.sort(x, descending=True), torch.topk(x, 3), x + 1


class DynamicZeros(nn.Module):
    def forward(self, x: Any) -> Any:
        zeros = torch.zeros_like(x)
        return torch.scatter(zeros, 0, I([0]), I([5.0])), zeros


@pytest.mark.parametrize("model", [Sorts(), Places(), Scatters()], ids=lambda m: type(m).__name__)
def test_nothing_else_changes(model: nn.Module, tmp_path: Path) -> None:
    torch.manual_seed(0)
    result = lemurc.compile(model, (torch.randn(11),), output=tmp_path / "m.lemur")
    with lemurc.load(result.path) as session:
        x = torch.randn(11)
        torch.testing.assert_close(session(x), model(x))


SHAPES = {"x": {0: Dim("n", min=4, max=64)}}


def test_sorts_of_any_length(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = DynamicSorts()
    args = (torch.randn(11),)
    result = lemurc.compile(model, args, dynamic_shapes=SHAPES, output=tmp_path / "m.lemur")
    with lemurc.load(result.path) as session:
        for length in (4, 11, 64):
            x = torch.randn(length)
            torch.testing.assert_close(session(x), model(x))


def test_a_scatter_that_iree_gets_wrong_is_not_delivered(tmp_path: Path) -> None:
    """Into a filled tensor of dynamic size that has another reader; once right, test it above."""
    path = tmp_path / "m.lemur"
    with pytest.raises(VerificationError):
        lemurc.compile(DynamicZeros(), (torch.randn(11),), dynamic_shapes=SHAPES, output=path)
    assert not path.exists()
