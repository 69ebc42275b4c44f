"""Views of a tensor as another dtype keep every bit."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import lemurc

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


class Views(nn.Module):
    """Each dtype as each other: of all bit patterns the test draws, NaN's payloads too."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        integers = [x.view(dtype) for dtype in INTEGERS]
        floats = [x.view(dtype) for dtype in FLOATS]
        bits = [f.view(torch.int32) for f in floats]  # what a float in between makes of it
        wide = [i.view(torch.int64) for i in integers]
        return (*integers, *floats, *bits, *wide)


@pytest.mark.parametrize("dynamic", [False, True])
def test_every_bit_is_kept(dynamic: bool, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    words = random.integers(-(2**63), 2**63, (4, 6), dtype=np.int64)
    words[0] = [0, -1, -(2**63), 2**63 - 1, 0x7FF0000000000001, 0x7F8000017FC00001]
    x = torch.from_numpy(words)
    shapes = {"x": {0: torch.export.Dim("rows", min=2, max=9)}} if dynamic else None
    artifact = lemurc.compile(
        Views(), (x,), dynamic_shapes=shapes, verify=False, output=tmp_path / "x.lemur"
    )
    session = lemurc.load(artifact.path)
    for given in (x, x[:3]) if dynamic else (x,):
        for made, eager in zip(session(given), Views()(given), strict=True):
            assert made.dtype == eager.dtype
            assert torch.equal(made.view(torch.uint8), eager.view(torch.uint8))
