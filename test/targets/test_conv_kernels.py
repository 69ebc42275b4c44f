"""The C kernels for convolutions alone, against float64 NumPy."""

import math

import numpy as np
import pytest

from lemurc.targets.layouts import panels16, rows6
from lemurc.targets.winograd import expected_error, tile_size

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
    (3, 61, 61, 9, (7, 7), (2, 2), (3, 3), (1, 1)),
    (150, 19, 19, 6, (3, 3), (2, 2), (1, 1), (1, 1)),
    (600, 9, 13, 8, (1, 1), (1, 1), (0, 0), (1, 1)),
    (3, 32, 48, 5, (16, 16), (16, 16), (0, 0), (1, 1)),
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
    packed, panels, tiles = kernels.unaligned(rows6(w)), 5, 1
    y = kernels.guarded(exact.shape)
    for image in range(2):
        for pixels in range(-(-out[0] * out[1] // (16 * panels))):
            for group in range(-(-filters // (6 * tiles))):
                sizes = (channels, height, width, filters, *out, *kernel)
                steps = (*stride, *padding, *dilation)
                work = (has_bias, 1, panels, tiles, pixels, group, image)
                packed = kernels.unaligned(rows6(w))
                kernels.call(
                    "conv", kernels.unaligned(x), packed, bias, y.array, *sizes, *steps, *work
                )
    depth = channels * kernel[0] * kernel[1]
    assert np.max(np.abs(y.check() - np.maximum(exact, 0))) < 4e-6 * math.sqrt(depth)


def winograd(kernels, x, w, bias, padding, m, activation=0, chunk=None, panels=2):
    """The convolution as targets/conv_kernels.py calls it, workgroup by workgroup."""
    images, channels, height, width = x.shape
    filters = len(w)
    out_height, out_width = (n + 2 * p - 2 for n, p in zip((height, width), padding, strict=True))
    columns = -(-out_width // m)
    tiles = -(-out_height // m) * columns
    chunk = chunk or min(tiles, 16 // columns * columns or 14)
    chunks, share = -(-tiles // chunk), 5
    place = (out_height, out_width, *padding, m)
    v = kernels.guarded((images, chunks, (m + 2) ** 2, channels + 1, -(-chunk // 4) * 4))
    y = kernels.guarded((images, filters, out_height, out_width))
    x, packed = kernels.unaligned(x), kernels.unaligned(panels16(w))
    given = (v.array, packed, x, x if bias is None else kernels.unaligned(bias))
    flags = (int(bias is not None), activation)
    for image in range(images):
        for c in range(chunks):
            for part in range(-(-channels // share)):
                sizes = (channels, height, width, *place, chunk, share, part, c, image)
                kernels.call("winograd_input", x, v.array, *sizes)
        v.check()
        for c in range(chunks):
            for p in range(-(-len(packed) // panels)):
                sizes = (channels, height, width, filters, *place, *flags)
                kernels.call("winograd", *given, y.array, *sizes, chunk, panels, p, c, image)
    return y.check()


def exact_images(x, w, padding):
    return np.stack([exact_conv(image, w, (1, 1), padding, (1, 1)) for image in x])


WINOGRAD = [
    # channels, height, width, filters, padding
    (1, 3, 3, 1, (0, 0)),
    (1, 1, 1, 1, (1, 1)),
    (3, 7, 5, 33, (1, 1)),
    (16, 14, 14, 32, (1, 1)),
    (5, 9, 31, 7, (0, 2)),
    (4, 6, 57, 12, (1, 1)),
    (2, 56, 56, 40, (1, 1)),
    (3, 5, 70, 9, (3, 0)),
    (70, 7, 7, 65, (1, 1)),
]


@pytest.mark.parametrize("case", WINOGRAD)
@pytest.mark.parametrize("m", [2, 4])
def test_winograd_within_its_bound(kernels, case, m):
    channels, height, width, filters, padding = case
    rng = np.random.default_rng(sum(case[:4]))
    x = rng.normal(0.5, 1, (2, channels, height, width)).astype(np.float32)
    w = rng.normal(0, 1, (filters, channels, 3, 3)).astype(np.float32)
    bias = rng.normal(0, 1, filters).astype(np.float32) if m == 2 else None
    exact = exact_images(x, w, padding)
    exact += 0 if bias is None else bias.astype(np.float64)[:, None, None]
    y = winograd(kernels, x, w, bias, padding, m, activation=1)
    error = np.abs(y - np.maximum(exact, 0)).max(axis=(0, 2, 3))
    scale = np.abs(x).max() * np.abs(w).sum(axis=(1, 2, 3))
    assert (error <= expected_error(m, channels) * scale).all()


@pytest.mark.parametrize("chunk", range(1, 17))
def test_winograd_in_chunks_of_any_size(kernels, chunk):
    rng = np.random.default_rng(chunk)
    x = rng.normal(0, 1, (1, 6, 22, 26)).astype(np.float32)
    w = rng.normal(0, 1, (70, 6, 3, 3)).astype(np.float32)
    y = winograd(kernels, x, w, None, (1, 1), 4, chunk=chunk, panels=4)
    np.testing.assert_allclose(y, exact_images(x, w, (1, 1)), atol=1e-4)


@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("position", [(0, 0, 0), (2, 7, 9), (1, 12, 4)])
def test_winograd_of_what_is_not_finite_spoils_what_reads_it_alone(kernels, m, bad, position):
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (1, 3, 13, 13)).astype(np.float32)
    w = rng.normal(0, 0.1, (5, 3, 3, 3)).astype(np.float32)
    expected = exact_images(x, w, (1, 1))
    x[(0, *position)] = bad
    y = winograd(kernels, x, w, None, (1, 1), m)
    _, row, column = position
    touched = np.zeros((13, 13), bool)
    touched[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2] = True
    np.testing.assert_allclose(y[..., ~touched], expected[..., ~touched], atol=1e-5)
    with np.errstate(invalid="ignore"):
        exact = exact_images(x, w, (1, 1))
    np.testing.assert_allclose(y[..., touched], exact[..., touched], rtol=1e-5)


@pytest.mark.parametrize("m", [2, 4])
def test_winograd_with_a_weight_that_is_not_finite(kernels, m):
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (1, 2, 9, 9)).astype(np.float32)
    w = rng.normal(0, 1, (4, 2, 3, 3)).astype(np.float32)
    w[1, 0, 1, 1], w[2, 1, 0, 2] = np.inf, np.nan
    y = winograd(kernels, x, w, None, (0, 0), m)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(y, exact_images(x, w, (0, 0)), rtol=1e-4, atol=1e-5)


def test_large_tiles_where_they_save_work_and_the_bound_holds():
    assert tile_size(64, 56, 56) == 4
    assert tile_size(64, 2, 2) == 2
    assert tile_size(2048, 56, 56) == 4
    assert tile_size(4096, 56, 56) == 2


DEPTHWISE = [
    # channels, height, width, multiplier, kernel, stride, padding, dilation
    (3, 56, 56, 1, (3, 3), (1, 1), (1, 1), (1, 1)),
    (2, 17, 600, 1, (3, 3), (2, 2), (1, 1), (1, 1)),
    (2, 70, 300, 2, (3, 3), (1, 1), (0, 2), (1, 1)),
    (3, 28, 28, 1, (5, 5), (1, 1), (2, 2), (1, 1)),
    (2, 31, 29, 1, (5, 5), (2, 2), (2, 2), (1, 1)),
    (2, 14, 33, 1, (7, 7), (1, 1), (3, 3), (1, 1)),
    (2, 14, 33, 1, (7, 7), (2, 2), (3, 3), (1, 1)),
    (4, 12, 40, 3, (1, 5), (1, 1), (0, 2), (1, 1)),
    (2, 23, 23, 1, (3, 3), (1, 1), (2, 2), (2, 2)),
    (2, 23, 50, 1, (3, 3), (3, 2), (1, 1), (1, 1)),
    (2, 1, 1, 1, (3, 3), (1, 1), (1, 1), (1, 1)),
    (2, 5, 90, 1, (2, 2), (11, 11), (0, 0), (1, 1)),
]


def depthwise(kernels, x, w, bias, stride, padding, dilation, out, activation=0):
    images, channels = x.shape[:2]
    filters, planes, share = len(w), x.shape[0] * len(w), 3
    y = kernels.guarded((images, filters, *out))
    x, w = kernels.unaligned(x), kernels.unaligned(w)
    given = (x, w, x if bias is None else kernels.unaligned(bias), y.array)
    sizes = (planes, channels, *x.shape[2:], filters, *out, *w.shape[2:])
    flags = (int(bias is not None), activation)
    for wg in range(-(-planes // share)):
        kernels.call("depthwise", *given, *sizes, *stride, *padding, *dilation, *flags, share, wg)
    return y.check()


@pytest.mark.parametrize("case", DEPTHWISE)
@pytest.mark.parametrize("has_bias", [False, True])
def test_depthwise(kernels, case, has_bias):
    channels, height, width, multiplier, kernel, stride, padding, dilation = case
    filters = channels * multiplier
    rng = np.random.default_rng(height * width)
    x = rng.normal(0, 1, (2, channels, height, width)).astype(np.float32)
    w = rng.normal(0, 1, (filters, 1, *kernel)).astype(np.float32)
    bias = rng.normal(0, 1, filters).astype(np.float32) if has_bias else None
    exact = np.stack(
        [
            np.concatenate(
                [
                    exact_conv(image[[f // multiplier]], w[[f]], stride, padding, dilation)
                    for f in range(filters)
                ]
            )
            for image in x
        ]
    )
    exact += bias.astype(np.float64)[:, None, None] if has_bias else 0
    y = depthwise(kernels, x, w, bias, stride, padding, dilation, exact.shape[2:], activation=1)
    taps = math.prod(kernel)
    assert np.max(np.abs(y - np.maximum(exact, 0))) < 4e-6 * math.sqrt(taps)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_depthwise_hands_on_what_is_not_finite(kernels, bad):
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (1, 2, 9, 40)).astype(np.float32)
    w = rng.normal(0, 1, (2, 1, 3, 3)).astype(np.float32)
    x[0, 1, 4, 16] = bad
    y = depthwise(kernels, x, w, None, (1, 1), (1, 1), (1, 1), (9, 40))
    assert np.isfinite(y[0, 0]).all()
    touched = np.zeros((9, 40), bool)
    touched[3:6, 15:18] = True
    assert (np.isfinite(y[0, 1]) == ~touched).all()
    np.testing.assert_array_equal(y[0, 1, 3:6, 15:18], bad * np.sign(w[1, 0, ::-1, ::-1]))
