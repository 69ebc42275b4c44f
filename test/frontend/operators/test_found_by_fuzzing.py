"""What random graphs found wrong or refused, compiled and against eager."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import lemurc

INF, NAN = float("inf"), float("nan")
FEW = Dim("few", min=2, max=20)


class Each(nn.Module):
    """Every function of the same arguments."""

    def __init__(self, *functions: Callable[..., Any]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, x: Any, y: Any) -> Any:
        return tuple(function(x, y) for function in self.functions)


def _check(tmp_path: Path, model: Each, x: Any, y: Any, **named: Any) -> None:
    result = lemurc.compile(model, (x, y), output=tmp_path / "m.lemur", verify=False, **named)
    with lemurc.load(result.path) as session:
        torch.testing.assert_close(tuple(session(x, y)), model(x, y), equal_nan=True)


LOG_SUMS = Each(
    torch.logaddexp,
    torch.logaddexp2,
    lambda x, y: torch.logcumsumexp(x, 0),
    lambda x, y: torch.logcumsumexp(torch.outer(x.nan_to_num(0.0, 90.0, -90.0), y), 1),
)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_log_sums(dtype: torch.dtype, tmp_path: Path) -> None:
    x = torch.tensor([1, -INF, INF, INF, -INF, 160, 5, -3, NAN], dtype=dtype)
    y = torch.tensor([2, -INF, INF, -INF, 3, 0, 5, 100, 1], dtype=dtype)
    _check(tmp_path, LOG_SUMS, x, y)


def test_log_sums_of_any_length(tmp_path: Path) -> None:
    x = torch.tensor([1.0, -INF, 160.0, 3.0, -5.0])
    shapes = {"x": {0: FEW}, "y": {0: FEW}}
    _check(tmp_path, Each(*LOG_SUMS.functions[:3]), x, x.flip(0), dynamic_shapes=shapes)


ROLLS = Each(
    lambda x, y: x.roll(3, 0),
    lambda x, y: x.roll(-5),
    lambda x, y: y.roll((7, -9), (0, 1)),
    lambda x, y: y.roll((1, 2), (0, 0)),
    lambda x, y: y[:, :1].roll(-2, 1),
    lambda x, y: y[:0].roll(1, 0),
)


@pytest.mark.parametrize("shapes", [None, {"x": {}, "y": {1: FEW}}], ids=["static", "dynamic"])
def test_rolls_by_more_than_the_size(shapes: Any, tmp_path: Path) -> None:
    _check(tmp_path, ROLLS, torch.randn(2), torch.randn(3, 4), dynamic_shapes=shapes)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
def test_integers_stay_integers(dtype: torch.dtype, tmp_path: Path) -> None:
    limits = torch.iinfo(dtype)
    x = torch.tensor([limits.max, limits.max - 1, limits.min, limits.min + 1, 3, 0], dtype=dtype)
    model = Each(
        lambda x, y: -x,
        lambda x, y: torch.heaviside(x[4], x),
        lambda x, y: torch.where(y[:1], y, x),
        lambda x, y: torch.where(y, x, y),
        lambda x, y: y.clamp(1, 9),
        lambda x, y: y.clamp(max=0.5),
        lambda x, y: x.to(torch.bfloat16),
        lambda x, y: x.argmax().to(torch.bfloat16),
    )
    _check(tmp_path, model, x, torch.arange(6) > 2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_parts_of_numbers(dtype: torch.dtype, tmp_path: Path) -> None:
    x = torch.tensor([1.75, -1.75, -0.5, -0.0, 1e4, -INF, NAN], dtype=dtype)
    model = Each(
        lambda x, y: torch.frac(torch.full_like(x, 1.75)),
        lambda x, y: torch.trunc(torch.full_like(x, -1.75)),
        lambda x, y: (torch.trunc(x), torch.signbit(torch.trunc(x))),
        lambda x, y: torch.frac(x),
        lambda x, y: x.to(torch.bfloat16),
    )
    _check(tmp_path, model, x, x)


def test_batches_of_matrices_and_vectors(tmp_path: Path) -> None:
    model = Each(lambda x, y: x @ y, lambda x, y: x[0, 0, :, 0] @ x, lambda x, y: x[0, 0] @ y)
    _check(tmp_path, model, torch.randn(5, 2, 3, 4), torch.randn(4))


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_lookups_in_a_column(dtype: torch.dtype, tmp_path: Path) -> None:
    model = Each(
        lambda x, y: torch.take_along_dim(x[..., 2], y, 0),
        lambda x, y: F.embedding(y, x[..., 1]),
        lambda x, y: x[:, ::2, 0][y[0]],
        lambda x, y: x[1][y[0]],
    )
    x = torch.arange(54).reshape(6, 3, 3).to(dtype)
    _check(tmp_path, model, x, torch.tensor([[2, 0, 1], [1, 1, 2]]))


def test_uneven_pooling_of_any_length(tmp_path: Path) -> None:
    model = Each(
        lambda x, y: F.adaptive_avg_pool2d(x, (2, 2)),
        lambda x, y: F.adaptive_avg_pool2d(x, (1, 3)),
        lambda x, y: F.adaptive_avg_pool2d(x, 1),
        lambda x, y: F.adaptive_max_pool2d(x, (2, 2)),
    )
    shapes = {"x": {2: FEW}, "y": {}}
    _check(tmp_path, model, torch.randn(2, 3, 5, 7), torch.ones(1), dynamic_shapes=shapes)


def test_numbers_beside_f64_keep_their_digits(tmp_path: Path) -> None:
    x = torch.tensor([-1.0, 0.5, 0.25, 2.0, -0.1], dtype=torch.float64)
    model = Each(
        lambda x, y: math.pi - x,
        lambda x, y: 0.1 / x,
        lambda x, y: torch.acos(x),
        lambda x, y: torch.asin(x),
        lambda x, y: torch.where(x > 0, math.pi, x),
    )
    result = lemurc.compile(model, (x, x), output=tmp_path / "m.lemur", verify=False)
    with lemurc.load(result.path) as session:
        for got, want in zip(session(x, x), model(x, x), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-14, atol=1e-15, equal_nan=True)


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.float64]
)
def test_arithmetic_of_constants(dtype: torch.dtype, tmp_path: Path) -> None:
    number = -1.75 if dtype.is_floating_point else 1
    model = Each(
        *(
            lambda x, y, f=f, n=n: f(torch.full_like(x, number)[:2, None], n)
            for f in (torch.lt, torch.ge, torch.add, torch.mul, torch.sub)
            for n in (0, -3, 0.5)
            if f is not torch.sub or dtype is not torch.bool
        ),
        lambda x, y: torch.zeros_like(x) == 0,
        lambda x, y: torch.zeros(3, 4).to(x.dtype).expand(2, 3, 4) != 0,
        lambda x, y: torch.remainder(torch.full((2,), -1.75), 0.5),
        lambda x, y: torch.full((2,), -1.75) + torch.tensor(2.0),
        lambda x, y: x.to(torch.float32) + torch.zeros_like(x).to(torch.float32).cos(),
    )
    _check(tmp_path, model, torch.ones(5).to(dtype), torch.ones(1))


def test_one_window_and_a_rest(tmp_path: Path) -> None:
    model = Each(
        lambda x, y: x.unfold(1, 3, 2) + y,
        lambda x, y: F.unfold(x.reshape(1, 1, 2, 4), (2, 3), stride=(2, 3)),
        lambda x, y: F.avg_pool1d(x, 3, 2),
    )
    _check(tmp_path, model, torch.randn(2, 4), torch.randn(3))


def test_pooling_without_a_batch(tmp_path: Path) -> None:
    model = Each(
        lambda x, y: F.avg_pool1d(x, 3, 2),
        lambda x, y: F.max_pool1d(x, 3, 2),
        lambda x, y: F.avg_pool2d(y, 3, 2, 1, count_include_pad=False),
        lambda x, y: F.max_pool2d(y, 3, 2, ceil_mode=True),
        lambda x, y: F.avg_pool3d(y.reshape(2, 4, 4, 4), 3, 1),
        lambda x, y: F.max_pool3d(y.reshape(2, 4, 4, 4), 2),
        lambda x, y: F.lp_pool2d(y, 2, 2),
    )
    _check(tmp_path, model, torch.randn(2, 8), torch.randn(2, 8, 8))


def test_transposed_convolutions_of_any_size(tmp_path: Path) -> None:
    model = Each(
        lambda x, y: F.conv_transpose2d(x, y, stride=2, padding=1, groups=4),
        lambda x, y: F.conv_transpose2d(x, y, padding=3, output_padding=1, stride=(2, 3)),
        lambda x, y: F.conv_transpose2d(x, y, dilation=2, stride=2, groups=2),
    )
    size = Dim("size", min=4, max=30)
    weight = torch.randn(4, 1, 3, 3)
    result = lemurc.compile(
        model,
        (torch.randn(2, 4, 7, 8), weight),
        dynamic_shapes={"x": {0: FEW, 2: size}, "y": None},
        output=tmp_path / "m.lemur",
    )
    with lemurc.load(result.path) as session:
        for batch, height in ((2, 7), (5, 4), (3, 13)):
            x = torch.randn(batch, 4, height, 8)
            torch.testing.assert_close(tuple(session(x, weight)), model(x, weight))


def test_padding_of_any_size(tmp_path: Path) -> None:
    modes: Any = ("reflect", "replicate", "circular")
    model = Each(
        *[lambda x, y, mode=mode: F.pad(x, [1, 2], mode=mode) for mode in modes],
        *[lambda x, y, mode=mode: F.pad(y, [1, 2, 2, 1], mode=mode) for mode in modes],
    )
    size = Dim("size", min=4, max=20)
    shapes = {"x": {2: size}, "y": {3: size}}
    _check_sizes(
        tmp_path, model, shapes, [(torch.randn(3, 2, n), torch.randn(1, 2, 5, n)) for n in (8, 4)]
    )


def test_sizes_are_numbers(tmp_path: Path) -> None:
    """A dynamic size on either side of an operator, as an integer and as a float."""
    model = Each(
        lambda x, y: (x.shape[0] - x, torch.rsub(x, x.shape[0]), x.half() * x.shape[0]),
        lambda x, y: (x.shape[0] - y.to(torch.int32), y.to(torch.int8) * x.shape[0]),
        lambda x, y: (torch.where(y > 0, x.shape[0], y), torch.where(y > 0, x, x.shape[0] / 2)),
        lambda x, y: (x.shape[0] / x.double(), x.double() + x.shape[0] / 7),
        lambda x, y: torch.remainder(x.shape[0], y.to(torch.int16).abs() + 1),
        lambda x, y: x.shape[0] // (y.to(torch.int8).abs() + 1),
        lambda x, y: (torch.pow(x.shape[0], x), x ** x.shape[0], x ** (x.shape[0] / 2)),
        lambda x, y: (x.shape[0] ** y.abs(), (y / 4) ** x.shape[0]),
        lambda x, y: (x.clamp(max=x.shape[0] - 7), x.clamp(x.shape[0] / 20)),
        lambda x, y: (x.masked_fill(y > 0, x.shape[0]), torch.full_like(x, x.shape[0])),
        lambda x, y: (x > x.shape[0] - 8, y.eq(x.shape[0]), torch.sym_float(x.shape[0]) * x),
    )
    shapes = {"x": {0: FEW}, "y": {0: FEW}}
    calls = [(torch.randn(n), torch.arange(n) - 3) for n in (8, 5)]
    _check_sizes(tmp_path, model, shapes, calls)


def _check_sizes(tmp_path: Path, model: Each, shapes: Any, calls: list[tuple[Any, ...]]) -> None:
    result = lemurc.compile(model, calls[0], output=tmp_path / "m.lemur", dynamic_shapes=shapes)
    with lemurc.load(result.path) as session:
        for call in calls:
            torch.testing.assert_close(tuple(session(*call)), model(*call), equal_nan=True)
