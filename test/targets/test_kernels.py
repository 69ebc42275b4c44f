"""The C kernels alone, against float64 NumPy: any size, any alignment, NaN and infinity."""

import math

import numpy as np
import pytest

from lemurc.targets.layouts import panels16

SIZES = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 257, 768, 1000, 1025, 4099]


def exact_gelu(x: np.ndarray) -> np.ndarray:
    erf = np.vectorize(math.erf)
    return x * 0.5 * (1 + erf(x / math.sqrt(2)))


def exact_silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


ELEMENTWISE = {
    # reference, spread of the inputs, input from which on the error is relative
    "gelu": (exact_gelu, 3, 1.0),
    "silu": (exact_silu, 9, 1e-3),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("share", [16, 48, 100000])
def test_an_elementwise_function(kernels, name, size, share):
    exact, spread, least = ELEMENTWISE[name]
    x = kernels.unaligned(np.random.default_rng(size).normal(0, spread, size).astype(np.float32))
    y = kernels.guarded((size,))
    for wg in range(-(-size // share)):
        kernels.call(name, x, y.array, size, share, wg)
    reference = exact(x.astype(np.float64))
    assert np.max(np.abs(y.check() - reference) / np.maximum(least, np.abs(x))) < 4e-7


@pytest.mark.parametrize(("name", "far"), [("gelu", -20), ("silu", -200)])
def test_elementwise_functions_of_what_is_not_finite_or_far_away(kernels, name, far):
    x = np.array([np.inf, -np.inf, np.nan, -1e30, 1e30, -0.0, 5e-39, far], np.float32)
    y = np.empty_like(x)
    kernels.call(name, x, y, 8, 16, 0)
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
    x = kernels.unaligned(rng.normal(mean, 2, (rows, n)).astype(np.float32))
    weight, bias = (kernels.unaligned(rng.normal(0, 1, n).astype(np.float32)) for _ in range(2))
    y = kernels.guarded((rows, n))
    for wg in range(3):
        sizes = (rows, n, *affine, share, wg)
        kernels.call("layer_norm", x, weight, bias, y.array, 1e-5, *sizes)
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
    kernels.call("layer_norm", x, x, x, y, 1e-5, 3, 17, 0, 0, 3, 0)
    assert np.isnan(y[1]).all()
    assert np.isfinite(y[[0, 2]]).all()


def exact_softmax(x):
    powers = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("spread", [1, 50])
def test_softmax(kernels, n, spread):
    rows, share = 5, 2
    x = kernels.unaligned(
        np.random.default_rng(n).normal(100, spread, (rows, n)).astype(np.float32)
    )
    y = kernels.guarded((rows, n))
    for wg in range(-(-rows // share)):
        kernels.call("softmax", x, y.array, rows, n, share, wg)
    reference = exact_softmax(x)
    np.testing.assert_allclose(y.check(), reference, rtol=2e-6, atol=1e-38)


@pytest.mark.parametrize("position", [0, 3, 16, 40])
def test_softmax_of_what_is_not_finite(kernels, position):
    x = np.random.default_rng(0).normal(0, 1, (6, 41)).astype(np.float32)
    for row, bad in enumerate((np.nan, np.inf, -np.inf)):
        x[row, position] = bad
    x[3] = -np.inf
    x[4] = -1e38
    x[4, position] = 1e38
    y = np.empty_like(x)
    kernels.call("softmax", x, y, 6, 41, 6, 0)
    assert np.isnan(y[[0, 1, 3]]).all()
    np.testing.assert_allclose(y[[2, 4, 5]], exact_softmax(x[[2, 4, 5]]), rtol=2e-6)
    assert y[2, position] == 0 and y[4, position] == 1


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("has_weight", [0, 1])
def test_rms_norm(kernels, n, has_weight):
    rows, share = 5, 2
    rng = np.random.default_rng(n)
    x = kernels.unaligned(rng.normal(3, 2, (rows, n)).astype(np.float32))
    weight = kernels.unaligned(rng.normal(1, 1, n).astype(np.float32))
    y = kernels.guarded((rows, n))
    for wg in range(-(-rows // share)):
        kernels.call("rms_norm", x, weight, y.array, 1e-5, rows, n, has_weight, share, wg)
    exact = x.astype(np.float64)
    reference = exact / np.sqrt((exact**2).mean(-1, keepdims=True) + 1e-5)
    reference *= weight if has_weight else 1
    np.testing.assert_allclose(y.check(), reference, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("position", [0, 16])
def test_rms_norm_of_what_is_not_finite_spoils_its_row_alone(kernels, bad, position):
    x = np.random.default_rng(0).normal(0, 1, (3, 17)).astype(np.float32)
    x[1, position] = bad
    y = np.empty_like(x)
    kernels.call("rms_norm", x, x, y, 1e-5, 3, 17, 0, 3, 0)
    assert np.isnan(y[1, position])
    assert (np.isnan(y[1]) | (y[1] == 0)).all()
    assert np.isfinite(y[[0, 2]]).all()


ACTIVATIONS = {0: lambda v: v, 1: lambda v: np.maximum(v, 0), 2: exact_gelu}


@pytest.mark.parametrize("m", [1, 2, 5, 6, 7, 13])
@pytest.mark.parametrize("n", [1, 7, 8, 16, 17, 40])
@pytest.mark.parametrize("k", [1, 3, 64, 641, 1300])
def test_linear(kernels, m, n, k):
    rng = np.random.default_rng(m * n * k)
    x, w = (rng.normal(0, 1, shape).astype(np.float32) for shape in ((m, k), (n, k)))
    x, bias = kernels.unaligned(x), kernels.unaligned(rng.normal(0, 1, n).astype(np.float32))
    activation, has_bias = (m + n + k) % 3, (m + n) % 2
    panels, tiles = 2, 1
    y = kernels.guarded((m, n))
    for column in range(-(-n // (16 * panels))):
        for row in range(-(-m // (6 * tiles))):
            sizes = (m, n, k, has_bias, activation, panels, tiles, column, row)
            kernels.call("linear", x, kernels.unaligned(panels16(w)), bias, y.array, *sizes)
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
    kernels.call("linear", x, panels16(w), bias, y, *sizes)
    assert np.isfinite(y[0]).all() and np.isnan(y[1]).all() and np.isinf(y[2]).all()
