"""Where several places hold a value, the compiled program and the reference name the same."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import lemurc
from lemurc.frontend.ties import StableTies

KINDS: dict[str, Callable[[torch.Tensor], Any]] = {
    "topk": lambda x: torch.topk(x, 9, 1),
    "smallest": lambda x: torch.topk(x, 9, 1, largest=False),
    "unsorted": lambda x: torch.topk(x, 9, 1, sorted=False),
    "first-dimension": lambda x: torch.topk(x, 3, 0),
    "kthvalue": lambda x: x.kthvalue(7, 1),
    "kept": lambda x: x.kthvalue(2, 0, keepdim=True),
    "median": lambda x: x.median(1),
    "nanmedian": lambda x: x.nanmedian(1, keepdim=True),
    "mode": lambda x: x.mode(1),
    "sort": lambda x: x.sort(1),
    "descending": lambda x: x.sort(0, descending=True),
    "asked-for-nothing": lambda x: torch.sort(x, dim=1, stable=False, descending=True),
}


class Apply(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return tuple(self.function(x))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_places_of_equal_values(kind: str, dtype: torch.dtype, tmp_path: Any) -> None:
    if kind == "nanmedian" and dtype is torch.int64:
        dtype = torch.float64
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 5, (4, 40), generator=generator).to(dtype)
    if dtype.is_floating_point and kind != "mode":
        x[1, [3, 30]] = torch.nan
    artifact = lemurc.compile(Apply(KINDS[kind]).eval(), (x,), output=tmp_path / "x.lemur")
    assert [verdict.status for verdict in artifact.verdicts] == ["verified"]
    values, places = lemurc.load(artifact.path)(x)
    eager, _ = KINDS[kind](x)
    if kind == "unsorted":
        eager = eager.sort(1, descending=True)[0]
    torch.testing.assert_close(values, eager, rtol=0, atol=0, equal_nan=True)
    dim = 0 if kind in ("first-dimension", "kept", "descending") else 1
    shape = places if places.dim() == x.dim() else places.unsqueeze(dim)
    found = x.gather(dim, shape)
    torch.testing.assert_close(found.reshape(eager.shape), eager, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mode"])
def test_signs_of_zeros(kind: str, tmp_path: Any) -> None:
    """0.0 and -0.0 are equal, so which one is where depends on the order of equal values."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-2, 3, (4, 40), generator=generator) / 2
    x = torch.where(torch.rand(4, 40, generator=generator) < 0.5, x, -x)
    model = Apply(lambda x: (1 / KINDS[kind](x)[0], torch.argsort(x), torch.msort(x)))
    artifact = lemurc.compile(model, (x,), output=tmp_path / "x.lemur")
    assert [verdict.status for verdict in artifact.verdicts] == ["verified"]


def test_the_reference_names_the_first_places() -> None:
    x = torch.tensor([[1.0, 2.0, 2.0, 1.0, 2.0, 0.0] * 20])
    with StableTies():
        values, places = torch.topk(x, 4)
    assert values.tolist() == [[2.0] * 4]
    assert places.tolist() == [[1, 2, 4, 7]]
    zeros = torch.tensor([0.0, -0.0, -0.0, 0.0, 0.0] * 20)
    with StableTies():
        values, places = torch.sort(zeros, descending=True)
        assert torch.argsort(zeros).tolist() == list(range(100))
    assert places.tolist() == list(range(100))
    assert torch.signbit(values).tolist() == torch.signbit(zeros).tolist()
