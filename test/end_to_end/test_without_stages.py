"""Programs that compute nothing: their results are arguments, weights, state or constants."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import lemurc


class Argument(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Nothing(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return None, 3


class Kept(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last.copy_(x)
        return self.last.clone()


class Bytes(nn.Module):
    """Views of an argument and of a weight, whose memory is theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.tensor([1, -1], dtype=torch.int8))

    def forward(self, x: torch.Tensor) -> Any:
        return x.view(torch.uint8), x, self.table.view(torch.uint8)


MODELS = {
    "argument": (Argument(), torch.ones(2)),
    "nothing": (Nothing(), torch.ones(2)),
    "kept": (Kept(), torch.ones(2)),
    "bytes": (Bytes(), torch.tensor([5, -3], dtype=torch.int8)),
}


@pytest.mark.parametrize("name", MODELS)
def test_it_has_a_device_and_is_verified(name: str, tmp_path: Path) -> None:
    model, x = MODELS[name]
    result = lemurc.compile(model, (x,), output=tmp_path / "model.lemur")
    assert not result.manifest.stages
    assert [(v.target, v.status) for v in result.verdicts] == [("cpu", "verified")]
    assert result.placement.startswith("cpu 0/0 ops")
    with lemurc.load(result.path, strict=True) as session:
        assert session.devices == ("cpu:0",)
        got, want = session(x), model(x)
        for one, other in zip(_several(got), _several(want), strict=True):
            if isinstance(other, torch.Tensor):
                assert torch.equal(torch.as_tensor(one), other), (one, other)
                assert torch.as_tensor(one).dtype is other.dtype
            else:
                assert one == other
    assert lemurc.run(result.path).ok
    assert [check.status for check in lemurc.verify(result.path).checks] == ["verified"]
    assert lemurc.bench(result.path, warmup=0, iterations=2).timings[0].calls == 2


def test_a_byte_on_a_device_has_the_sign_of_the_result(tmp_path: Path) -> None:
    model, x = MODELS["bytes"]
    with lemurc.load(lemurc.compile(model, (x,), output=tmp_path / "b.lemur").path) as session:
        again = session(torch.tensor([7, -1], dtype=torch.int8), outputs="device")[0]
        assert list(torch.as_tensor(again.numpy() if hasattr(again, "numpy") else again)) == [
            7,
            255,
        ]


def test_bytes_seen_with_the_other_sign(tmp_path: Path) -> None:
    class Views(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Any:
            wide = x.view(torch.uint8).to(torch.int32) + 1
            return wide, y.view(torch.int8).to(torch.float32) * 2, z.view(torch.uint8)

    x = torch.tensor([-128, -1, 0, 127], dtype=torch.int8)
    args = (x, x.view(torch.uint8), x > 0)
    result = lemurc.compile(Views(), args, output=tmp_path / "v.lemur", targets="cpu:host")
    with lemurc.load(result.path) as session:
        for one, other in zip(session(*args), Views()(*args), strict=True):
            assert torch.equal(one, other) and one.dtype is other.dtype


def _several(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (tuple, list)) else [values]
