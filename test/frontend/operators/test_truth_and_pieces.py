"""Operators of the types and sizes that torch-mlir refuses, compiled and against eager."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import lemurc
from lemurc.frontend.own_decompositions import own_decompositions

aten = torch.ops.aten
TABLE = own_decompositions()
NAN = float("nan")


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32])
@pytest.mark.parametrize("equal_nan", [False, True])
def test_isclose(dtype: torch.dtype, equal_nan: bool) -> None:
    x = torch.tensor([0.0, 1.0, 1.0, 5.0, -0.0]).to(dtype)
    y = torch.tensor([0.0, 1.0, 0.0, 5.0, 1.0]).to(dtype)
    if dtype.is_floating_point:
        x = torch.cat([x, torch.tensor([NAN, torch.inf, torch.inf, 1.0])])
        y = torch.cat([y, torch.tensor([NAN, torch.inf, -torch.inf, 1.0 + 1e-6])])
    for tolerances in ((1e-5, 1e-8), (0.0, 0.0), (0.5, 0.6)):
        mine = TABLE[aten.isclose.default](x, y, *tolerances, equal_nan)
        assert torch.equal(mine, torch.isclose(x, y, *tolerances, equal_nan))


INTEGERS = torch.tensor([2**63 - 1, -(2**63), 2**62 + 1, -(2**53) - 1, -7, 7, 0, 1])


class Inexact(nn.Module):
    """What random graphs found to be computed in floats, or out of order."""

    def forward(self, n: Any, x: Any, bytes_: Any) -> Any:
        return (
            torch.div(n, 1, rounding_mode="floor"),
            torch.div(n, 3, rounding_mode="floor"),
            torch.div(n, -3, rounding_mode="trunc"),
            n // 5,
            torch.fmod(n, 7),
            torch.gcd(n, torch.full_like(n, 6)),
            F.hardtanh(x),
            F.relu6(x),
            torch.clamp(x, -1.0, 1.0),
            torch.clamp(x, min=0.25),
            torch.maximum(x, x.flip(0)),
            torch.minimum(x, torch.full_like(x, 0.25)),
            torch.argsort(bytes_, descending=True, stable=True),
            torch.argsort(x, descending=True, stable=True),
            torch.sort(x, 0, descending=True),
            torch.sort(x),
        )


def test_exact_integers_nan_and_order(tmp_path: Path) -> None:
    x = torch.tensor([0.5, NAN, 2.0, 0.5, -torch.inf, torch.inf, -3.0, 2.0, 0.5, -0.0, 0.0])
    bytes_ = torch.tensor([200, 1, 200, 7, 1, 255, 0, 255], dtype=torch.uint8)
    model = Inexact()
    args = (INTEGERS, x, bytes_)
    result = lemurc.compile(model, args, output=tmp_path / "m.lemur", verify=False)
    with lemurc.load(result.path) as session:
        got = session(*args)
    for y, r in zip(
        torch.utils._pytree.tree_leaves(got),
        torch.utils._pytree.tree_leaves(model(*args)),
        strict=True,
    ):
        assert y.dtype == r.dtype
        torch.testing.assert_close(y, r, rtol=0, atol=0, equal_nan=True)


class Refused(nn.Module):
    """What random graphs found torch-mlir or IREE to refuse."""

    def forward(self, x: Any, bytes_: Any, image: Any) -> Any:
        halves = torch.chunk(x, 2, 1)
        uneven = torch.split(x, 3, 1)[1]
        parts = torch.split(x, [1, 3, 1], 1)[1]
        truth = (
            torch.any(bytes_, 1),
            torch.all(bytes_, -1, keepdim=True),
            torch.any(bytes_),
            torch.all(bytes_),
            torch.isclose(bytes_, bytes_.flip(0)),
        )
        shifts = bytes_.to(torch.int32) << 3, torch.bitwise_left_shift(bytes_, 1)
        numbers = torch.fmax(x, x.flip(0)), torch.fmin(x, x.flip(0)), torch.xlogy(x, 2.5)
        windows = (
            F.max_pool2d(image, 3, 2),
            F.max_pool2d(image[..., :3], 3, 2, ceil_mode=True),
            F.avg_pool2d(image, 3, 2),
            F.conv2d(image, torch.ones(2, 2, 3, 3), stride=3),
            F.max_pool1d(image[0], 3, 2),
        )
        return halves[0], uneven, parts, truth, shifts, numbers, windows


class Bytes(nn.Module):
    """torch-mlir takes them for signed ones."""

    def forward(self, x: Any, y: Any) -> Any:
        small = y.clamp(1, 9)
        return (
            (x / 3, x * 2.5, x / 255, x + 200, 3 - x, -x, x * y, x // 3),
            (x > 130, x < 3, x < y, x < y.int(), torch.maximum(x, y), torch.clamp(x, y, y + 1)),
            (torch.sort(x, 1).values, torch.topk(x, 2, 1).values, torch.median(x, 1).values),
            (torch.fmod(x, 7), torch.remainder(x, small), torch.gcd(x, y), x >> 1, torch.abs(x)),
            (
                x.prod(1),
                x.sum(1),
                x.amax(1),
                x.argmax(1),
                x.max(1).values,
                torch.cummax(x, 1).values,
            ),
            torch.scatter_reduce(x, 1, y.long() % 4, y, "amax"),
        )


def test_unsigned_bytes(tmp_path: Path) -> None:
    x = torch.tensor([[0, 1, 200, 128], [255, 127, 3, 5], [130, 129, 2, 250]], dtype=torch.uint8)
    args = (x, x.flip(1).contiguous())
    result = lemurc.compile(
        Bytes(), args, targets="cpu:host", output=tmp_path / "model.lemur", golden="example"
    )
    assert result.verdicts[0].status == "verified"


class Wide(nn.Module):
    """Functions of f64 that IREE has no code for."""

    def forward(self, x: Any) -> Any:
        unit = x.clamp(-1, 1)
        return (
            (torch.asin(unit), torch.acos(unit), torch.atan(x), torch.erf(x)),
            (F.gelu(x), F.gelu(x, approximate="tanh"), torch.log2(x), torch.log10(x)),
            (torch.sin(x), torch.cos(x), torch.tan(x), torch.log10(x.float())),
        )


@pytest.mark.parametrize("level", [0, 2])
def test_what_was_refused_compiles(tmp_path: Path, level: int) -> None:
    bytes_ = torch.tensor([[0, 1, 200], [0, 0, 0], [1, 2, 3]], dtype=torch.uint8)
    x = torch.tensor([[1.0, NAN, -2.0, 0.5, 3.0], [2.0, 1.0, NAN, 0.5, -1.0]])
    args = (x, bytes_, torch.randn(3, 2, 4, 4))
    output = tmp_path / "model.lemur"
    result = lemurc.compile(
        Refused(), args, targets="cpu:host", output=output, opt_level=level, golden="example"
    )
    assert result.verdicts[0].status == "verified"


def test_functions_of_f64_compile(tmp_path: Path) -> None:
    x = torch.linspace(-7, 7, 101, dtype=torch.float64)
    result = lemurc.compile(Wide(), (x,), targets="cpu:host", output=tmp_path / "model.lemur")
    assert result.verdicts[0].status == "verified"
