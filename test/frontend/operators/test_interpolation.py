"""Linear interpolation against eager: infinities, half precision, bytes, dynamic sizes."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import lemurc
from lemurc.frontend.own_decompositions import own_decompositions

aten = torch.ops.aten
TABLE = own_decompositions()
INF, NAN = float("inf"), float("nan")


def _image(dtype: torch.dtype) -> torch.Tensor:
    image = torch.randn(2, 3, 3, 5, generator=torch.Generator().manual_seed(0))
    image[0, 0, 1, 2] = image[1, 1, 2, 4] = INF
    image[1, 2, 0, 0], image[0, 2, 1, 1] = -INF, NAN
    return image.to(dtype)


SIZES: list[dict[str, Any]] = [
    {"scale_factor": 2},
    {"scale_factor": 1.7},
    {"size": (4, 7)},
    {"size": (3, 9)},
    {"size": (7, 4), "align_corners": True},
]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_special_values(dtype: torch.dtype, size: dict[str, Any]) -> None:
    image = _image(dtype)
    factor = size.get("scale_factor")
    mine = TABLE[aten.upsample_bilinear2d.vec](
        image, size.get("size"), size.get("align_corners", False), factor and [factor, factor]
    )
    torch.testing.assert_close(mine, F.interpolate(image, mode="bilinear", **size), equal_nan=True)


@pytest.mark.parametrize(("mode", "rank"), [("linear", 1), ("bilinear", 2), ("trilinear", 3)])
def test_ranks(mode: str, rank: int) -> None:
    image = torch.randn(2, 3, *(4, 5, 6)[:rank])
    name = f"upsample_{mode}{rank}d"
    mine = TABLE[getattr(aten, name).default](image, [7, 9, 5][:rank], False)
    torch.testing.assert_close(mine, F.interpolate(image, size=[7, 9, 5][:rank], mode=mode))


@pytest.mark.parametrize("align_corners", [False, True])
def test_bytes_to_the_bit(align_corners: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        height, width, *size = torch.randint(1, 41, (4,), generator=generator).tolist()
        image = torch.randint(0, 256, (2, 3, height, width), dtype=torch.uint8)
        mine = TABLE[aten.upsample_bilinear2d.vec](image, size, align_corners, None)
        want = F.interpolate(image, size=size, mode="bilinear", align_corners=align_corners)
        assert torch.equal(mine, want)


class Resize(nn.Module):
    def forward(self, x: Any) -> Any:
        return (
            F.interpolate(x, scale_factor=2, mode="bilinear"),
            F.interpolate(x, size=(4, 9), mode="bilinear"),
            F.interpolate(x, size=(4, 9), mode="bilinear", align_corners=True),
        )


def test_compiled_for_any_height(tmp_path: Path) -> None:
    shapes = {"x": {2: Dim("height", min=2, max=16)}}
    result = lemurc.compile(
        Resize(), (torch.randn(1, 2, 3, 5),), dynamic_shapes=shapes, output=tmp_path / "m.lemur"
    )
    with lemurc.load(result.path) as session:
        for height in (2, 3, 11):
            x = torch.randn(1, 2, height, 5)
            torch.testing.assert_close(tuple(session(x)), Resize()(x))
