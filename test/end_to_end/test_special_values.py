"""NaN, infinities, zeros and roundings that random graphs found lost in compiled code."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import lemurc

INF, NAN = torch.inf, torch.nan


EXPONENTS = (
    0.25,
    0.3,
    2049,
    0.5,
    -0.5,
    -0.25,
    1.5,
    -1.5,
    2,
    3,
    -1,
    -2,
    -3,
    0,
    INF,
    -INF,
    NAN,
    1e3,
    1001,
)
BASES = (2.0, -2.0, 0.0, -0.0, 1.0, -1.0, 0.5, INF, -INF, NAN)


class Powers(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        whole = torch.pow(x[:, None], y)
        return whole, *(torch.pow(x, y) for y in EXPONENTS), *(torch.pow(b, x) for b in BASES)


class Remainders(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return torch.fmod(x, y), torch.remainder(x, y), torch.floor_divide(x, y), x // 0.1


class Extremes(nn.Module):
    def forward(self, x: Any, low: Any) -> Any:
        largest, smallest = torch.max(x, -1), torch.min(x, -1)
        whole = (torch.argmax(x), torch.argmin(x, 0), torch.clamp(x, low, low + 1))
        return (*whole, largest.values, largest.indices, smallest.values, smallest.indices)


class Hyperbolic(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return torch.asinh(x), torch.acosh(x), torch.tanh(x), torch.log1p(y), torch.expm1(y)


class Angles(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.sin(x), torch.cos(x)


class Places(nn.Module):
    def forward(self, x: Any, n: Any) -> Any:
        return x.nonzero(), n.nonzero()


class Bytes(nn.Module):
    def forward(self, x: Any, zero: Any) -> Any:
        whole = (x == -9, x > -3, torch.remainder(x, -3), torch.div(x, -3, rounding_mode="floor"))
        return (*whole, torch.clamp(x, -9, -2), torch.maximum(x, zero - 9))


class Rounded(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return x.bfloat16().float() * 3, x.bfloat16() // y.bfloat16(), x.half() // 0.3


class Rectified(nn.Module):
    def forward(self, x: Any) -> Any:
        cut = torch.where(x > 0, x, torch.zeros_like(x))
        return torch.relu(x), 1 / torch.relu(x), cut


def _run(model: nn.Module, args: tuple[torch.Tensor, ...], path: Path) -> Any:
    made = lemurc.compile(model, args, output=path / "m.lemur", opt_level=0, verify=False)
    with lemurc.load(made.path) as session:
        return [torch.as_tensor(y) for y in session(*args)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("level", [0, 2])
def test_signs_of_zeros_after_relu(dtype: torch.dtype, level: int, tmp_path: Path) -> None:
    x = torch.tensor([[-0.0, 0.0, -1.0, 2.0, NAN, INF, -INF] * 5], dtype=dtype).mT
    made = lemurc.compile(Rectified(), (x,), output=tmp_path / "m.lemur", opt_level=level)
    with lemurc.load(made.path) as session:
        got = [torch.as_tensor(y) for y in session(x)]
    for ours, eager in zip(got, Rectified()(x), strict=True):
        torch.testing.assert_close(ours, eager, equal_nan=True, rtol=0, atol=0)
        number = ~torch.isnan(eager)
        assert torch.equal(torch.signbit(ours[number]), torch.signbit(eager[number]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_powers(dtype: torch.dtype, tmp_path: Path) -> None:
    x = torch.tensor([0, -0.0, 1, -1, INF, -INF, NAN, 0.3, -0.3, 2, -2, -5.5], dtype=dtype)
    args = x, torch.tensor(EXPONENTS, dtype=dtype)
    got = _run(Powers(), args, tmp_path)
    for ours, eager in zip(got, Powers()(*args), strict=True):
        torch.testing.assert_close(ours, eager, equal_nan=True)
        zero = eager == 0
        assert torch.equal(torch.signbit(ours[zero]), torch.signbit(eager[zero]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_remainders(dtype: torch.dtype, tmp_path: Path) -> None:
    x = torch.tensor([5.5, -5.5, 7e4, 3, -0.0, 1, 1, INF, NAN, -2, 0.3, -9], dtype=dtype)
    y = torch.tensor([2, 2, 3, -5, 1, 0, 0.1, 1, 2, INF, 0.1, 3], dtype=dtype)
    if dtype is torch.float64:
        x[2], y[2] = 7e30, 3e-5
    got = _run(Remainders(), (x, y), tmp_path)
    torch.testing.assert_close(got, list(Remainders()(x, y)), rtol=0, atol=0, equal_nan=True)


def test_nan_wins(tmp_path: Path) -> None:
    args = (
        torch.tensor([[1, INF, NAN, -INF, NAN], [1, 2, 3, 0, 1]]),
        torch.tensor([NAN] + [0.5] * 4),
    )
    got = _run(Extremes(), args, tmp_path)
    torch.testing.assert_close(got, list(Extremes()(*args)), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_hyperbolic_functions_of_tiny_and_huge_numbers(dtype: torch.dtype, tmp_path: Path) -> None:
    x = torch.tensor([1e-20, -1e-9, -0.0, 0.3, -4e3, 1e30, -1e30, INF, -INF, NAN, 1, 1.5])
    args = (x.to(dtype), torch.tensor([1e-20, -1e-10, -0.0, -1, -2, INF, NAN], dtype=dtype))
    got = _run(Hyperbolic(), args, tmp_path)
    want = list(Hyperbolic()(*args))
    rtol = 1e-6 if dtype is torch.float32 else 1e-14
    torch.testing.assert_close(got, want, rtol=rtol, atol=0, equal_nan=True)
    assert torch.signbit(got[2][2])


@pytest.mark.parametrize(
    ("dtype", "largest", "error"), [(torch.float32, 4e5, 2e-7), (torch.float64, 8e8, 1e-15)]
)
def test_large_angles(dtype: torch.dtype, largest: float, error: float, tmp_path: Path) -> None:
    """Their digits count; where they cannot be computed there is no number."""
    generator = torch.Generator().manual_seed(0)
    near = torch.rand(999, generator=generator, dtype=dtype) * 2 - 1
    x = torch.cat([near * scale for scale in (1.0, 1e2, 1e4, largest)])
    special = torch.tensor([-0.0, 0.0, INF, -INF, NAN, 1e12, -1e30], dtype=dtype)
    for made, want in zip(
        _run(Angles(), (torch.cat([x, special]),), tmp_path), Angles()(x.double()), strict=True
    ):
        assert (made[: len(x)].double() - want).abs().max() < error
        assert made[len(x) + 2 :].isnan().all()
    assert torch.signbit(_run(Angles(), (special,), tmp_path)[0][0])


def test_nonzero_of_numbers(tmp_path: Path) -> None:
    x = torch.tensor([[0.5, 2.5, 0, -0.3], [-3.0, 1.0, 0.9, -0.0]])
    args = (x, torch.tensor([3, 0, -2, 7, 0]))
    for got, want in zip(_run(Places(), args, tmp_path), Places()(*args), strict=True):
        assert torch.equal(got, want)


def test_numbers_beside_unsigned_bytes_are_bytes(tmp_path: Path) -> None:
    args = (torch.tensor([0, 1, 128, 247, 253, 255], dtype=torch.uint8), torch.tensor(0))
    torch.testing.assert_close(_run(Bytes(), args, tmp_path), list(Bytes()(*args)))


def test_casts_to_bf16_and_back_round(tmp_path: Path) -> None:
    args = (torch.randn(450) * 50, torch.randn(450))
    got = _run(Rounded(), args, tmp_path)
    torch.testing.assert_close(got, list(Rounded()(*args)), rtol=0, atol=0, equal_nan=True)


class Ordered(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.argsort(x, -1), *torch.cummax(x, -1), torch.cummin(x, -1).indices


def test_order_along_a_size_that_varies(tmp_path: Path) -> None:
    x = torch.tensor([[1, 3, 3, NAN, 2, 5, 0, 4, 9], [5, 4, 9, 8, 9, 9, 9, 1, 0]])
    made = lemurc.compile(
        Ordered(),
        (x[:, :3].contiguous(),),
        dynamic_shapes={"x": {1: Dim("n", min=2, max=9)}},
        output=tmp_path / "m.lemur",
        verify=False,
    )
    with lemurc.load(made.path) as session:
        for size in (2, 3, 9):
            part = x[:, :size].contiguous()
            got = [torch.as_tensor(y) for y in session(part)]
            torch.testing.assert_close(got, list(Ordered()(part)), rtol=0, atol=0, equal_nan=True)
