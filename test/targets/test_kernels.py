"""The C kernels alone, against float64 NumPy: any size, any alignment, NaN and infinity."""

import ctypes
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lemurc.targets.cpu import host_architecture
from lemurc.targets.layouts import panels16, rows6

pytest.importorskip("ziglang")
pytestmark = pytest.mark.skipif(
    host_architecture() not in ("x86-64-v3", "x86-64-v4"), reason="this CPU has no AVX2"
)

SOURCES = Path(__file__).parents[2] / "targets" / "cpu" / "kernels"
SIZES = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 257, 768, 1000, 1025, 4099]
FLAGS = "-O3 -ffreestanding -fno-builtin -fno-sanitize=undefined -fPIC -shared -nostdlib".split()


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """The kernels as a shared library."""
    library = tmp_path_factory.mktemp("kernels") / "kernels.so"
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-linux-gnu"]
    sources = [str(path) for path in sorted(SOURCES.glob("*.c"))]
    command = [*compiler, "-mcpu=x86_64_v3", *FLAGS, *sources, "-o", str(library)]
    subprocess.run(command, check=True, timeout=120)
    return ctypes.CDLL(str(library))


def call(function, *arguments) -> None:
    """Arrays are passed as a pointer to guard-padded data and offset 0."""
    converted = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            converted += [ctypes.c_void_p(argument.ctypes.data), ctypes.c_long(0)]
        elif isinstance(argument, float):
            converted.append(ctypes.c_double(argument))
        else:
            converted.append(ctypes.c_long(argument))
    function.restype = None
    function(*converted)


def unaligned(array: np.ndarray) -> np.ndarray:
    """A copy whose data starts 4 bytes after a multiple of 32."""
    room = np.zeros(array.size + 16, np.float32)
    start = next(k for k in range(16) if (room.ctypes.data + 4 * k) % 32 == 4)
    view = room[start : start + array.size].reshape(array.shape)
    view[...] = array
    return view


class Guarded:
    """An output with sentinels around it, to notice a write outside."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        size = math.prod(shape)
        self._room = np.full(size + 32, 12345.0, np.float32)
        self.array = self._room[16 : 16 + size].reshape(shape)

    def check(self) -> np.ndarray:
        assert (self._room[:16] == 12345.0).all() and (self._room[-16:] == 12345.0).all()
        return self.array


def exact_gelu(x: np.ndarray) -> np.ndarray:
    erf = np.vectorize(math.erf)
    return x * 0.5 * (1 + erf(x / math.sqrt(2)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("share", [16, 48, 100000])
def test_gelu(kernels, size, share):
    x = unaligned(np.random.default_rng(size).normal(0, 3, size).astype(np.float32))
    y = Guarded((size,))
    for wg in range(-(-size // share)):
        call(kernels.lemurc_gelu, x, y.array, size, share, wg)
    reference = exact_gelu(x.astype(np.float64))
    assert np.max(np.abs(y.check() - reference) / np.maximum(1, np.abs(x))) < 4e-7


def test_gelu_of_what_is_not_finite_or_far_away(kernels):
    x = np.array([np.inf, -np.inf, np.nan, -1e30, 1e30, -0.0, 5e-39, -20], np.float32)
    y = np.empty_like(x)
    call(kernels.lemurc_gelu, x, y, 8, 16, 0)
    expected = [np.inf, np.nan, np.nan, 0, 1e30, 0, 2.5e-39, 0]
    np.testing.assert_allclose(y, np.array(expected, np.float32), rtol=1e-6)


def exact_layer_norm(x, weight, bias, eps):
    x = x.astype(np.float64)
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    return scaled * weight + bias


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("mean", [0.0, 4096.0])
@pytest.mark.parametrize("affine", [(1, 1), (1, 0), (0, 1), (0, 0)])
def test_layer_norm(kernels, n, mean, affine):
    rng = np.random.default_rng(n)
    rows, share = 5, 2
    x = unaligned(rng.normal(mean, 2, (rows, n)).astype(np.float32))
    weight, bias = (unaligned(rng.normal(0, 1, n).astype(np.float32)) for _ in range(2))
    y = Guarded((rows, n))
    for wg in range(3):
        sizes = (rows, n, *affine, share, wg)
        call(kernels.lemurc_layer_norm, x, weight, bias, y.array, 1e-5, *sizes)
    used_weight = weight if affine[0] else 1.0
    used_bias = bias if affine[1] else 0.0
    reference = exact_layer_norm(x, used_weight, used_bias, 1e-5)
    assert np.max(np.abs(y.check() - reference)) < 3e-6


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("position", [0, 3, 16])
def test_layer_norm_of_what_is_not_finite_spoils_its_row_alone(kernels, bad, position):
    x = np.random.default_rng(0).normal(0, 1, (3, 17)).astype(np.float32)
    x[1, position] = bad
    y = np.empty_like(x)
    call(kernels.lemurc_layer_norm, x, x, x, y, 1e-5, 3, 17, 0, 0, 3, 0)
    assert np.isnan(y[1]).all()
    assert np.isfinite(y[[0, 2]]).all()


ACTIVATIONS = {0: lambda v: v, 1: lambda v: np.maximum(v, 0), 2: exact_gelu}


@pytest.mark.parametrize("m", [1, 2, 5, 6, 7, 13])
@pytest.mark.parametrize("n", [1, 7, 8, 16, 17, 40])
@pytest.mark.parametrize("k", [1, 3, 64, 641, 1300])
def test_linear(kernels, m, n, k):
    rng = np.random.default_rng(m * n * k)
    x, w = (rng.normal(0, 1, shape).astype(np.float32) for shape in ((m, k), (n, k)))
    x, bias = unaligned(x), unaligned(rng.normal(0, 1, n).astype(np.float32))
    activation, has_bias = (m + n + k) % 3, (m + n) % 2
    panels, tiles = 2, 1
    y = Guarded((m, n))
    for column in range(-(-n // (16 * panels))):
        for row in range(-(-m // (6 * tiles))):
            sizes = (m, n, k, has_bias, activation, panels, tiles, column, row)
            call(kernels.lemurc_linear, x, unaligned(panels16(w)), bias, y.array, *sizes)
    exact = x.astype(np.float64) @ w.T.astype(np.float64) + (bias if has_bias else 0)
    error = np.abs(y.check() - ACTIVATIONS[activation](exact))
    assert np.max(error) < 4e-6 * math.sqrt(k)


@pytest.mark.parametrize("activation", [0, 1, 2])
def test_linear_hands_on_what_is_not_finite(kernels, activation):
    x = np.ones((3, 5), np.float32)
    x[1, 2], x[2, 0] = np.nan, np.inf
    w, bias = np.ones((9, 5), np.float32), np.zeros(9, np.float32)
    y = np.empty((3, 9), np.float32)
    sizes = (3, 9, 5, 1, activation, 1, 1, 0, 0)
    call(kernels.lemurc_linear, x, panels16(w), bias, y, *sizes)
    assert np.isfinite(y[0]).all() and np.isnan(y[1]).all() and np.isinf(y[2]).all()


CONVOLUTIONS = [
    # channels, height, width, filters, kernel, stride, padding, dilation
    (1, 1, 1, 1, (1, 1), (1, 1), (0, 0), (1, 1)),
    (3, 9, 11, 7, (3, 3), (1, 1), (1, 1), (1, 1)),
    (4, 20, 37, 6, (3, 3), (1, 1), (1, 1), (1, 1)),
    (2, 8, 8, 13, (5, 3), (2, 1), (2, 0), (1, 2)),
    (5, 13, 13, 7, (3, 3), (3, 3), (2, 2), (2, 2)),
    (3, 7, 5, 12, (1, 1), (1, 1), (0, 0), (1, 1)),
    (90, 7, 7, 14, (3, 3), (1, 1), (1, 1), (1, 1)),
    (2, 4, 40, 3, (7, 7), (1, 1), (6, 6), (1, 1)),
]


def exact_conv(x, w, stride, padding, dilation):
    x = np.pad(x.astype(np.float64), ((0, 0), *((p, p) for p in padding)))
    filters, _, rows, columns = w.shape
    height, width = (
        (x.shape[axis + 1] - dilation[axis] * (w.shape[axis + 2] - 1) - 1) // stride[axis] + 1
        for axis in range(2)
    )
    y = np.zeros((filters, height, width))
    for i in range(rows):
        for j in range(columns):
            top, left = i * dilation[0], j * dilation[1]
            part = x[:, top :: stride[0], left :: stride[1]][:, :height, :width]
            y += np.einsum("fc,chw->fhw", w[:, :, i, j].astype(np.float64), part)
    return y


@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.parametrize("has_bias", [0, 1])
def test_conv(kernels, case, has_bias):
    channels, height, width, filters, kernel, stride, padding, dilation = case
    rng = np.random.default_rng(sum(case[:4]))
    x = rng.normal(0, 1, (2, channels, height, width)).astype(np.float32)
    w = rng.normal(0, 1, (filters, channels, *kernel)).astype(np.float32)
    bias = rng.normal(0, 1, filters).astype(np.float32)
    exact = np.stack([exact_conv(image, w, stride, padding, dilation) for image in x])
    exact += has_bias * bias.astype(np.float64)[:, None, None]
    out = exact.shape[2:]
    packed, panels, tiles = unaligned(rows6(w)), 2, 1
    y = Guarded(exact.shape)
    for image in range(2):
        for pixels in range(-(-out[0] * out[1] // (16 * panels))):
            for group in range(-(-filters // (6 * tiles))):
                sizes = (channels, height, width, filters, *out, *kernel)
                steps = (*stride, *padding, *dilation)
                work = (has_bias, 1, panels, tiles, pixels, group, image)
                packed = unaligned(rows6(w))
                call(
                    kernels.lemurc_conv, unaligned(x), packed, bias, y.array, *sizes, *steps, *work
                )
    depth = channels * kernel[0] * kernel[1]
    assert np.max(np.abs(y.check() - np.maximum(exact, 0))) < 4e-6 * math.sqrt(depth)
