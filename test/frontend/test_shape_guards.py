"""A decomposition may not assume a size that was declared as varying."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from lemurc.errors import UnsupportedModelError
from lemurc.frontend import decompositions
from lemurc.frontend.torch_export import EntryPoint, decompose, export


class Cosh(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.cosh(x)


def _counting(x: torch.Tensor) -> torch.Tensor:
    step = 1
    while step < x.shape[0]:
        x, step = x + 1, step * 2
    return x


def test_refused_with_the_assumption(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {torch.ops.aten.cosh.default: _counting}
    monkeypatch.setattr(decompositions, "own_decompositions", lambda: table)
    shapes = {"x": {0: Dim("n", min=3, max=20)}}
    exported = export(EntryPoint(Cosh(), (torch.randn(6),), {}, shapes))
    with pytest.raises(UnsupportedModelError, match=r"x\.shape\[0\]") as caught:
        decompose(exported)
    assert caught.value.code == "dynamic-size-specialised"
