"""Convolutions of every kind against eager, on the architecture with the best kernels."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import lemurc

CONVOLUTIONS = {
    # channels, filters, kernel, stride, padding, groups; images, height, width
    "tiles of 4": ((64, 64, 3, 1, 1, 1), (1, 56, 56)),
    "tiles over the edge": ((16, 33, 3, 1, 1, 1), (3, 13, 9)),
    "tiles of 2": ((32, 40, 3, 1, 0, 1), (2, 4, 4)),
    "wide padding": ((17, 16, 3, 1, 2, 1), (1, 30, 70)),
    "pointwise": ((300, 20, 1, 1, 0, 1), (2, 9, 10)),
    "stem": ((3, 16, 7, 2, 3, 1), (1, 64, 60)),
    "downsampling": ((40, 24, 3, 2, 1, 1), (1, 28, 28)),
    "depthwise": ((24, 24, 3, 1, 1, 24), (2, 30, 37)),
    "depthwise, two filters each": ((5, 10, 5, 2, 2, 5), (1, 30, 37)),
    "deep": ((512, 64, 3, 1, 1, 1), (1, 7, 7)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_answers_like_eager(tmp_path: Path, name: str) -> None:
    (channels, filters, *kernel, groups), (images, height, width) = CONVOLUTIONS[name]
    torch.manual_seed(0)
    model = nn.Conv2d(channels, filters, *kernel, groups=groups).eval()
    x = torch.randn(images, channels, height, width)
    lemurc.compile(model, (x,), targets="cpu:host", output=tmp_path / "model.lemur")
    bad = x.clone()
    bad[0, -1, 1, 2] = torch.inf
    bad[-1, 2, 0, 0] = torch.nan
    with torch.inference_mode(), lemurc.load(tmp_path / "model.lemur") as session:
        exact = model.double()(x.double()).numpy()
        of_bad = model.float()(bad).numpy()
        assert np.abs(session(x.numpy()) - exact).max() < 2e-5
        np.testing.assert_allclose(session(bad.numpy()), of_bad, rtol=1e-4, atol=5e-5)
