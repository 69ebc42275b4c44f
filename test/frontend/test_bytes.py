"""Integers of 8 bits through the lowering and IREE: wrap-around, signs, result types."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from lemurc.frontend.load import load


class Bytes(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> Any:
        whole = torch.stack([a, b])
        return (
            a * 3,
            a + 100,
            7 - a,
            a * b,
            a // 3,
            torch.div(a, 3, rounding_mode="trunc"),
            a // b,
            a % 3,
            a.max(),
            b.min(),
            a.to(torch.float32) / 2,
            a.to(torch.int64) + b,
            a > 100,
            a | 8,
            a ^ 5,
            a << (b & 3),
            torch.maximum(a, b),
            whole @ whole.t(),
            torch.full_like(a, 100),
            torch.arange(4, dtype=a.dtype) + a,
            whole.sum(0),
            a.clamp(3, 120),
            torch.sort(a)[0],
            torch.sort(a, descending=True)[1],
            torch.topk(a, 2)[0],
            torch.topk(a, 2)[1],
            torch.argmax(a),
            torch.argmin(b),
            a.amax(0),
            b.amin(0),
            whole.max(1)[0],
            whole.max(1)[1],
            whole.min(0)[0],
            whole.min(0)[1],
            a < b,
            torch.minimum(a, b),
            a.to(torch.float32),
            torch.cumsum(a, 0),
            a.sum(),
            a - b,
            -a,
            torch.where(a > b, a, b),
        )


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
def test_bytes(level_l: ModuleType, dtype: torch.dtype, tmp_path: Path) -> None:
    a = torch.tensor([250, 3, 128, 127]).to(torch.uint8).view(dtype)
    b = torch.tensor([7, 200, 255, 2]).to(torch.uint8).view(dtype)
    model = Bytes()
    compiled = level_l.LoweredFunction(load(model, (a, b)), tmp_path)
    got = compiled([a.numpy(), b.numpy()])
    for at, (mine, eager) in enumerate(zip(got, model(a, b), strict=True)):
        eager = eager.numpy()
        # IREE's arrays have no unsigned integers; the artifact's signature does
        assert (mine.astype(eager.dtype) == eager).all(), at


class Narrowed(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        wide = [x, x.double(), x.half(), x.bfloat16()]
        return [y.to(dtype) for y in wide for dtype in (torch.uint8, torch.int8, torch.int16)]


def test_floats_to_bytes(level_l: ModuleType, tmp_path: Path) -> None:
    """Past the range of the type C leaves it open; eager keeps the lowest bits."""
    x = torch.tensor([0.0, 1.9, 127, 128, 200, 255, 256, 300, -1, -2.5, -129, 40000, -70000])
    compiled = level_l.LoweredFunction(load(Narrowed(), (torch.rand(13),)), tmp_path)
    got = compiled([x.numpy()])
    for at, (mine, eager) in enumerate(zip(got, Narrowed()(x), strict=True)):
        assert (mine.astype(eager.numpy().dtype) == eager.numpy()).all(), at
