"""Buffers that the model changes: from call to call, saved, restored, copied."""

import torch
from torch import nn

from lemurc.tools.conformance_cases.case import Bench, Scenario, draw, expect


class _Counter(nn.Module):
    total: torch.Tensor
    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int32))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        self.total += x
        self.calls += 1
        return [self.total * 2, self.calls + 0]


class _Cache(nn.Module):
    """A table of which a call writes one row and reads all."""

    rows: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(8, 4))

    def forward(self, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        self.rows.index_copy_(0, at, x)
        return self.rows.sum(0) + self.rows[0]


class _Last(nn.Module):
    """Answers with the argument of the call before."""

    last: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(300, 300))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = self.last + 1
        self.last.copy_(x)
        return before


def _lives(bench: Bench) -> None:
    model, xs = _Counter(), [draw(4, seed=s) for s in range(4)]
    with bench.compiled(_Counter(), (xs[0],)) as session:
        for number, x in enumerate(xs):
            expect(session(x), model(x), f"call {number}")
        session.reset()
        expect(session(xs[1]), _Counter()(xs[1]), "the first call after a reset")


def _is_saved(bench: Bench) -> None:
    xs = [draw(4, seed=s) for s in range(3)]
    with bench.compiled(_Counter(), (xs[0],)) as session:
        session(xs[0])
        saved = session.state()
        want = session(xs[1])
        twin = session.copy()
        session(xs[2])
        session.load_state(saved)
        expect(session(xs[1]), want, "a call from a restored state")
        expect(twin.state()["calls"], torch.tensor(2, dtype=torch.int32), "the copy's state")
        twin.close()


def _is_updated_in_part(bench: Bench) -> None:
    model, place = _Cache(), torch.tensor([0])
    with bench.compiled(_Cache(), (place, draw(1, 4))) as session:
        for step in range(6):
            at, x = torch.tensor([step]), draw(1, 4, seed=step)
            expect(session(at, x), model(at, x), f"step {step}")


def _keeps_its_own_copy(bench: Bench) -> None:
    x = draw(300, 300)
    with bench.compiled(_Last(), (x,)) as session:
        given = x.clone()
        session(given)
        given.zero_()
        expect(session(given), x + 1, "the argument before, after the caller overwrote it")
        result = session(given)
        result.zero_()
        expect(session(given), torch.ones(300, 300), "a call after a result was overwritten")


SCENARIOS = (
    Scenario("lives", _lives),
    Scenario("is_saved", _is_saved),
    Scenario("is_updated_in_part", _is_updated_in_part),
    Scenario("keeps_its_own_copy", _keeps_its_own_copy),
)
