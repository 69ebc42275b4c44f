"""Measuring a model whose state takes only so many calls."""

from pathlib import Path

import pytest
import torch
from torch import nn

import lemurc
from lemurc.errors import InputError


class Cache(nn.Module):
    """Writes at the next of four places: a fifth call has none."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(4, 3))
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.keys[self.position] = x
        self.position.add_(1)
        return self.keys.sum(0)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cache") / "cache.lemur"
    return lemurc.compile(Cache(), (torch.ones(1, 3),), output=path, targets="cpu:host").path


def test_the_state_restarts_where_it_is_full(cache: Path) -> None:
    with lemurc.load(cache) as session:
        for _ in range(4):
            session(torch.ones(1, 3))
        with pytest.raises(InputError):
            session(torch.ones(1, 3))
    timing = lemurc.bench(cache, warmup=3, iterations=10).timings[0]
    assert (timing.calls, timing.restarts) == (10, 3)


def test_a_call_that_never_goes_well_is_an_error(tmp_path: Path) -> None:
    class Picky(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total.add_(x)
            torch._assert_async((x * 2 < 9).all(), "too large")
            return self.total.clone()

    path = tmp_path / "picky.lemur"
    lemurc.compile(Picky(), (torch.ones(1),), output=path, targets="cpu:host")
    import numpy as np

    np.save(tmp_path / "x.npy", np.full(1, 9, np.float32))
    with pytest.raises(InputError, match="too large"):
        lemurc.bench(path, inputs=(f"@{tmp_path / 'x.npy'}",), warmup=0, iterations=1)
