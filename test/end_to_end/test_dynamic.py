"""Sizes known at the call: one artifact equals eager at every size of the declared ranges."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import lemurc
from lemurc.errors import InputError


class Attention(nn.Module):
    """A transformer block; the reshape merges two dynamic sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(32), nn.Linear(32, 96)
        self.out, self.up, self.down = nn.Linear(32, 32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: Any, mask: Any) -> Any:
        b, t, c = x.shape
        parts = self.qkv(self.norm(x)).view(b, t, 3, 4, 8).permute(2, 0, 3, 1, 4)
        q, k, v = parts.unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        x = x + self.out(attended.transpose(1, 2).reshape(b * t, c)).view(b, t, c)
        return x + self.down(F.gelu(self.up(x)))


def test_attention_block_with_batch_and_length_dynamic(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Attention().eval()
    batch, length = Dim("batch", min=1, max=16), Dim("length", min=1, max=128)
    args = (torch.randn(2, 7, 32), torch.ones(2, 7, dtype=torch.bool))
    shapes = {"x": {0: batch, 1: length}, "mask": {0: batch, 1: length}}
    result = lemurc.compile(model, args, dynamic_shapes=shapes, output=tmp_path / "m.lemur")
    session = lemurc.load(result.path)
    for sizes in ((1, 1), (1, 128), (2, 7), (3, 16), (16, 5), (5, 33)):
        x = torch.randn(*sizes, 32)
        mask = torch.rand(*sizes) > 0.3
        mask[:, 0] = True
        with torch.no_grad():
            want = model(x, mask)
        torch.testing.assert_close(session(x, mask), want, rtol=1e-4, atol=1e-5)
    for sizes in ((17, 4), (2, 129), (0, 4)):
        with pytest.raises(InputError, match="batch|length"):
            session(torch.randn(*sizes, 32), torch.ones(*sizes, dtype=torch.bool))
    cost = next(iter(result.manifest.stages.values())).cost
    assert cost.flops > 16 * 128 * (96 + 32 + 64 + 64) * 32 * 2, "costs are those of the maxima"


class SelfAttention(nn.Module):
    def forward(self, x: Any) -> Any:
        return F.scaled_dot_product_attention(x, x * 0.5, x, is_causal=True)


@pytest.mark.parametrize("opt_level", [0, 3])
def test_heads_of_dynamic_width(opt_level: int, tmp_path: Path) -> None:
    shapes, x = ({3: Dim("width", min=2, max=64)},), torch.randn(2, 2, 9, 24)
    options = {"dynamic_shapes": shapes, "opt_level": opt_level}
    path = lemurc.compile(SelfAttention(), (x,), output=tmp_path / "m.lemur", **options).path
    session = lemurc.load(path)
    for width in (2, 16, 17, 33, 64):
        x = torch.randn(2, 2, 9, width)
        torch.testing.assert_close(session(x), SelfAttention()(x), rtol=1e-5, atol=1e-6)


class Derived(nn.Module):
    def forward(self, x: Any, y: Any, z: Any) -> Any:
        t = x.shape[0]
        return x.view(t // 4, 4, 3).sum(1), y[1:] + x, z + x.mean(), t * 2, t / 2


def test_multiples_and_offsets_of_a_size(tmp_path: Path) -> None:
    quarter = Dim("quarter", min=1, max=8)
    shapes = {"x": {0: 4 * quarter}, "y": {0: 4 * quarter + 1}, "z": {0: Dim("free", max=9)}}
    args = (torch.randn(8, 3), torch.randn(9, 3), torch.randn(2))
    result = lemurc.compile(Derived(), args, dynamic_shapes=shapes, output=tmp_path / "m.lemur")
    session = lemurc.load(result.path)
    for t, free in ((4, 1), (8, 2), (32, 9), (20, 0)):
        args = (torch.randn(t, 3), torch.randn(t + 1, 3), torch.randn(free))
        got, want = session(*args), Derived()(*args)
        for y, r in zip(got[:3], want[:3], strict=True):
            torch.testing.assert_close(y, r)
        assert got[3:] == want[3:] and [type(n) for n in got[3:]] == [int, float]
    for sizes, words in (
        ((6, 7, 1), "multiple of 4"),
        ((8, 10, 1), "quarter"),
        ((36, 37, 1), "32"),
    ):
        with pytest.raises(InputError, match=words):
            session(torch.randn(sizes[0], 3), torch.randn(sizes[1], 3), torch.randn(sizes[2]))


class Pieces(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        y = self.linear(x)
        return y.softmax(-1), torch.cat([y, y]), y.sum(0), y.relu().transpose(0, 1)


def test_no_rows_at_all(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Pieces().eval()
    shapes = {"x": {0: Dim("rows", min=0, max=64)}}
    path = tmp_path / "m.lemur"
    lemurc.compile(model, (torch.randn(5, 4),), dynamic_shapes=shapes, output=path)
    session = lemurc.load(path)
    for rows in (0, 1, 5, 64):
        x = torch.randn(rows, 4)
        with torch.no_grad():
            want = model(x)
        torch.testing.assert_close(session(x), want, rtol=1e-4, atol=1e-5)


LAYERS = {
    "norm, linear": lambda: nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64)),
    "three linears": lambda: nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16)),
    "convolution": lambda: nn.Sequential(nn.Conv1d(8, 16, 3, padding=1), nn.GELU()),
    "transformer": lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True),
    "batched product": lambda: BatchedProduct(),
}


class BatchedProduct(nn.Module):
    def forward(self, x: Any) -> Any:
        return x @ x.transpose(1, 2) @ torch.tanh(x)


@pytest.mark.parametrize("layers", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("batch_too", [False, True], ids=["length", "batch and length"])
def test_sizes_that_fill_no_tile(layers: Any, batch_too: bool, tmp_path: Path) -> None:
    """IREE 3.13 packs operands in tiles of 8, and got batches wrong that end within one."""
    torch.manual_seed(0)
    model = layers().eval()
    axis = 2 if isinstance(model[0] if isinstance(model, nn.Sequential) else None, nn.Conv1d) else 1
    shape = [2, 32, 32]
    if axis == 2:
        shape = [2, 8, 32]
    dims = {axis: Dim("length", min=2, max=64)} | ({0: Dim("batch", max=8)} if batch_too else {})
    name = "src" if isinstance(model, nn.TransformerEncoderLayer) else None
    name = name or ("x" if isinstance(model, BatchedProduct) else "input")
    result = lemurc.compile(
        model, (torch.randn(shape),), dynamic_shapes={name: dims}, output=tmp_path / "m.lemur"
    )
    session = lemurc.load(result.path)
    for length in (2, 5, 8, 9, 16, 23, 40, 63, 64):
        shape[0], shape[axis] = (3 if batch_too else 2), length
        x = torch.randn(shape)
        with torch.no_grad():
            want = model(x)
        torch.testing.assert_close(session(x), want, rtol=1e-4, atol=1e-5)
