"""Sums of half precision are as exact as PyTorch's, which adds up in f32."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import lemurc

LENGTH = 6000
"""A running sum in bf16 stands still from 256 addends of 1 on, in f16 from 2048."""


class Sums(nn.Module):
    def forward(self, x: torch.Tensor, where: torch.Tensor) -> dict[str, torch.Tensor]:
        nothing = torch.zeros(2, dtype=x.dtype)
        row = x[0]
        return {
            "sum": x.sum(-1),
            "norm": x.norm(2, -1),
            "norm of 1": torch.linalg.vector_norm(x, 1, -1),
            "norm of 3": torch.linalg.vector_norm(x, 3, -1),
            "matrix": torch.linalg.matrix_norm(x),
            "normalize": F.normalize(x, dim=-1) * 64,
            "distance": F.pairwise_distance(x, -x),
            "similarity": F.cosine_similarity(x, x.roll(1, -1)),
            "scatter_add": nothing.scatter_add(0, where, row),
            "scatter_reduce": nothing.scatter_reduce(0, where, row, "sum"),
            "mean": nothing.scatter_reduce(0, where, row, "mean", include_self=False),
            "pool": F.adaptive_avg_pool1d(x[None], 2),
            "softmax": torch.softmax(x / 4, -1) * LENGTH,
        }


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_long_sums(dtype: torch.dtype, tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = (torch.rand(3, LENGTH) + 0.25).to(dtype)
    where = torch.zeros(LENGTH, dtype=torch.int64)
    result = lemurc.compile(Sums(), (x, where), verify=False, output=tmp_path / "m.lemur")
    exact = Sums()(x.double(), where)
    with lemurc.load(result.path) as session:
        answers = session(x, where)
    for name, value in answers.items():
        error = (torch.as_tensor(value).double() - exact[name]).abs().max()
        assert error <= 4 * torch.finfo(dtype).eps * exact[name].abs().max(), name
