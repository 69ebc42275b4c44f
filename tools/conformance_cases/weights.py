"""Tensors of the model: in every type, shared, mapped from the artifact."""

import torch
from torch import nn

from lemurc.tools.conformance_cases.case import Bench, Scenario, draw, eager, expect


class _Layers(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(12, 20)
        self.second = nn.Linear(20, 12)
        self.second.weight = nn.Parameter(self.first.weight.T.contiguous())
        self.norm = nn.LayerNorm(12)
        self.to(dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.norm(x + self.second(torch.relu(self.first(x))))
        return result


class _Tied(nn.Module):
    """Two layers of one weight, and a table that is not floating point."""

    shifts: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = nn.Embedding(11, 6)
        self.register_buffer("shifts", torch.arange(11, dtype=torch.int32))

    def forward(self, at: torch.Tensor) -> list[torch.Tensor]:
        return [self.embedding(at) @ self.embedding.weight.T, self.shifts[at]]


def _layers(dtype: torch.dtype) -> Scenario:
    def run(bench: Bench) -> None:
        model, calls = _Layers(dtype).eval(), [draw(3, 12, seed=s, dtype=dtype) for s in range(3)]
        with bench.compiled(model, (calls[0],)) as session:
            for x in calls:
                expect(session(x), eager(model, (x,)))

    return Scenario(f"layers_{str(dtype).removeprefix('torch.')}", run)


def _tied(bench: Bench) -> None:
    model, at = _Tied().eval(), torch.tensor([3, 0, 10])
    with bench.compiled(model, (at,)) as session:
        expect(session(at), eager(model, (at,)))


def _two_functions(bench: Bench) -> None:
    """Entry points over one set of weights."""
    torch.manual_seed(2)
    layer = nn.Linear(5, 5)
    x = draw(2, 5)
    path = bench.compile({"once": (layer, (x,)), "twice": (nn.Sequential(layer, layer), (x,))})
    with bench.load(path) as session:
        expect(session.once(x), eager(layer, (x,)), "once")
        expect(session.twice(x), eager(nn.Sequential(layer, layer), (x,)), "twice")


def _two_sessions(bench: Bench) -> None:
    """Closing one leaves the other its weights."""
    model, x = _Layers(torch.float32).eval(), draw(3, 12)
    path = bench.compile(model, (x,))
    with bench.load(path) as kept:
        with bench.load(path) as other:
            expect(other(x), eager(model, (x,)), "the second session")
        expect(kept(x), eager(model, (x,)), "the first session, when the second is closed")


SCENARIOS = (
    *(_layers(dtype) for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16)),
    Scenario("tied", _tied),
    Scenario("two_functions", _two_functions),
    Scenario("two_sessions", _two_sessions),
)
