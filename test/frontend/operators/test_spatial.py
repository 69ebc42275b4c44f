"""Pooling, resizing, convolutions and quantisation against eager."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import lemurc
from lemurc.frontend.own_decompositions import own_decompositions

aten = torch.ops.aten
TABLE = own_decompositions()


@pytest.mark.parametrize("size", [(3, 4), (1, 5), (9, 13), (7, 2)])
def test_adaptive_pooling(size: tuple[int, int]) -> None:
    image = torch.randn(2, 3, 7, 11)
    image[0, 0, 3, 3] = torch.inf
    mine = TABLE[aten.adaptive_avg_pool2d.default](image, size)
    torch.testing.assert_close(mine, F.adaptive_avg_pool2d(image, size))
    image[0, 0, 3, 3] = torch.nan
    mine = TABLE[aten.adaptive_max_pool2d.default](image, size)
    expected = F.adaptive_max_pool2d(image, size, return_indices=True)
    for got, wanted in zip(mine, expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True)


def test_equal_windows_stay_whole() -> None:
    image = torch.randn(1, 2, 6, 8)
    assert TABLE[aten.adaptive_avg_pool2d.default](image, [3, 2]) is NotImplemented


POOLS: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 2, "stride": 3, "dilation": 2, "ceil_mode": True},
    {"kernel_size": (3, 1), "stride": (2, 1), "padding": (1, 0)},
]


@pytest.mark.parametrize("pool", POOLS)
def test_max_pooling_with_indices(pool: dict[str, Any]) -> None:
    image = torch.randn(2, 3, 7, 10)
    given = {
        key: [value, value] if isinstance(value, int) and key != "ceil_mode" else value
        for key, value in pool.items()
    }
    mine = TABLE[aten.max_pool2d_with_indices.default](image, **given)
    expected = F.max_pool2d(image, return_indices=True, **pool)
    for got, wanted in zip(mine, expected, strict=True):
        assert torch.equal(got, wanted)


@pytest.mark.parametrize(
    "arguments",
    [
        ([2, 2], [2, 2], [0, 0], False, True, None),
        ([3, 2], [2, 1], [1, 0], True, True, None),
        ([3, 3], [2, 2], [1, 1], True, False, None),
        ([3, 3], [], [1, 1], False, True, 5),
    ],
)
def test_gradient_of_average_pooling(arguments: tuple[Any, ...]) -> None:
    image = torch.randn(2, 3, 7, 10)
    gradient = torch.randn_like(aten.avg_pool2d(image, *arguments))
    mine = TABLE[aten.avg_pool2d_backward.default](gradient, image, *arguments)
    torch.testing.assert_close(mine, aten.avg_pool2d_backward(gradient, image, *arguments))
    gradient = torch.randn(2, 3, 3, 4)
    mine = TABLE[aten._adaptive_avg_pool2d_backward.default](gradient, image)
    torch.testing.assert_close(mine, aten._adaptive_avg_pool2d_backward(gradient, image))


@pytest.mark.parametrize("size", [(3, 2), (9, 13), (4, 20)])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("kind", ["bilinear", "bicubic", "lanczos"])
def test_antialiased_resizing(kind: str, align: bool, size: tuple[int, int]) -> None:
    operator = getattr(aten, f"_upsample_{kind}2d_aa").default
    image = torch.randn(1, 2, 7, 11)
    mine = TABLE[operator](image, size, align, None, None)
    torch.testing.assert_close(mine, operator(image, size, align), rtol=1e-4, atol=5e-6)


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.ConvTranspose1d(4, 3, 7, stride=3, padding=2), (2, 4, 6)),
        (nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1, groups=2, dilation=2), (2, 4, 5, 5)),
        (nn.ConvTranspose2d(4, 4, 4, 2, 1, groups=4, bias=False), (1, 4, 5, 3)),
        (nn.ConvTranspose2d(2, 2, 2, padding=1), (1, 2, 4, 4)),
        (nn.ConvTranspose3d(2, 4, 3, 2, 1, output_padding=1, groups=2), (1, 2, 2, 3, 2)),
    ],
)
def test_transposed_convolutions(module: Any, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    given = (module.stride, module.padding, module.dilation, True, module.output_padding)
    with torch.no_grad():
        mine = TABLE[aten.convolution.default](x, module.weight, module.bias, *given, module.groups)
        torch.testing.assert_close(mine, module(x))


@pytest.mark.parametrize("padding", [(-1, 2), (1, -1, -1, 0), (-1, -2, -1, -1)])
def test_padding_that_crops(padding: tuple[int, ...]) -> None:
    x = torch.randn(2, 3, 4, 5)
    mine = TABLE[aten.constant_pad_nd.default](x, list(padding), 3.0)
    assert torch.equal(mine, F.pad(x, padding, value=3.0))


def test_fake_quantisation() -> None:
    x = torch.randn(300, 5) * 3
    operator = aten.fake_quantize_per_tensor_affine_cachemask.default
    for got, wanted in zip(
        TABLE[operator](x, 0.1, 2, -8, 7), operator(x, 0.1, 2, -8, 7), strict=True
    ):
        assert torch.equal(got, wanted)
    scale, zero = torch.rand(5) * 0.1 + 0.01, torch.randint(-3, 3, (5,)).int()
    operator = aten.fake_quantize_per_channel_affine_cachemask.default
    mine = TABLE[operator](x, scale, zero, 1, -128, 127)[0]
    assert torch.equal(mine, operator(x, scale, zero, 1, -128, 127)[0])


@pytest.mark.parametrize(
    "layer, shape",
    [
        (torch.nn.AdaptiveAvgPool1d(1), (2, 12)),
        (torch.nn.AdaptiveAvgPool1d(4), (2, 12)),
        (torch.nn.AdaptiveAvgPool1d(3), (2, 3, 12)),
        (torch.nn.AdaptiveAvgPool2d(1), (3, 4, 6)),
        (torch.nn.AdaptiveAvgPool2d(2), (3, 4, 6)),
    ],
)
def test_equal_windows_compile_with_and_without_a_batch(
    layer: torch.nn.Module, shape: tuple[int, ...], tmp_path: Path
) -> None:
    result = lemurc.compile(layer, (torch.randn(shape),), output=tmp_path / "m.lemur")
    assert {verdict.status for verdict in result.verdicts} == {"verified"}
