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
