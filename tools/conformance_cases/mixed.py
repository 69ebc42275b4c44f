"""A graph over the device and the CPU together: every way to give its stages to the two.

The graph is compiled once, one operation a stage, for both; then each assignment is a plan.
Stages that follow each other go together where there are too many to try all.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lemurc.manifest import Device, Plan, Step
from lemurc.runtime.artifact import Artifact
from lemurc.tools.conformance_cases.case import Bench, Scenario, demand, draw, eager, expect

MANY_PARTS, FEW_PARTS = 5, 3


class _Graph(nn.Module):
    """A diamond with a weight; the argument and values on the way are results too."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        top = torch.tanh(self.layer(x))
        left = torch.softmax(top, -1)
        right = top @ top.T
        return [right @ left, right, x]


class _Types(nn.Module):
    """Booleans and integers cross."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        places = x.argmax(-1).to(torch.int32)
        mask = torch.softmax(x, -1) > 0.2
        return [torch.cumsum(mask.to(torch.int32), -1), places.sum(0, dtype=torch.int32), mask]


class _Halves(nn.Module):
    """Floating point of 16 bits crosses."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        high, low = torch.softmax(x.to(torch.float16), -1), x.to(torch.bfloat16)
        return [high @ high.T, torch.softmax(low @ low.T, -1)]


class _Rows(nn.Module):
    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        y = torch.tanh(x)
        return [y @ y.T, y]


class _Counter(nn.Module):
    """Both devices read the state, and one of them writes it."""

    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4, 4))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        before = torch.softmax(self.total, -1)
        self.total += x @ x.T
        return [before @ x, self.total.sum(-1)]


def _check(
    bench: Bench, model: nn.Module, calls: list[torch.Tensor], parts: int, **options: Any
) -> None:
    both = bench.targets if bench.kind == "cpu" else f"{bench.targets},cpu"
    options = {"largest_stage": 1, **options}
    path = bench.compile(model.eval(), (calls[0],), targets=both, **options)
    if not _is_planned_alone(bench, path):
        bench.compile(model, (calls[0],), **options)  # says why not
    tried = 0
    for assigned, mixed in _every_assignment(bench, path, parts):
        fresh = type(model)()
        fresh.load_state_dict(model.state_dict())
        with bench.load(mixed, devices=None) as session:
            where = "; ".join(f"{stage} on {device}" for stage, device in assigned.items())
            for number, x in enumerate(calls):
                expect(session(x), eager(fresh, (x,)), f"call {number}, {where}")
            demand(len(session.devices) == 2, f"runs on {session.devices} alone")
        mixed.unlink()
        tried += 1
    demand(tried >= 2, "the graph is one stage: nothing was mixed")


def _is_planned_alone(bench: Bench, path: Path) -> bool:
    with Artifact.open(path) as artifact:
        alone = [plan.devices[0] for plan in artifact.manifest.plans if len(plan.devices) == 1]
    return bench.kind in {device.target for device in alone}


def _every_assignment(bench: Bench, path: Path, most: int) -> Iterator[tuple[dict[str, str], Path]]:
    """Artifacts with one plan each, and which stage is where in it; stages in `most` parts."""
    other = "cpu:1" if bench.device == "cpu:0" else "cpu:0"
    devices = (Device(bench.device, bench.kind, True), Device(other, "cpu", True))
    with Artifact.open(path) as artifact:
        whole = next(plan for plan in artifact.manifest.plans if len(plan.devices) == 1)
        stages = [step.stage for step in whole.steps["main"]]
        parts = min(len(stages), most)
        for chosen in itertools.product((bench.device, other), repeat=parts):
            if len(set(chosen)) < 2:
                continue
            assigned = {stage: chosen[n * parts // len(stages)] for n, stage in enumerate(stages)}
            steps = tuple(Step(stage, assigned[stage]) for stage in stages)
            yield assigned, bench.with_plan(artifact, Plan(devices, {"main": steps}, {}))


def _sizes_vary(bench: Bench) -> None:
    rows = torch.export.Dim("rows", min=1, max=32)
    calls = [draw(n, 6, seed=n) for n in (3, 1, 9)]
    _check(bench, _Rows(), calls, FEW_PARTS, dynamic_shapes=({0: rows},))


SCENARIOS = (
    Scenario(
        "every_assignment",
        lambda bench: _check(bench, _Graph(), [draw(4, 6, seed=s) for s in (0, 1)], MANY_PARTS),
    ),
    Scenario(
        "types_that_cross",
        lambda bench: _check(bench, _Types(), [draw(3, 5, seed=s) for s in (0, 1)], FEW_PARTS),
    ),
    Scenario(
        "halves_that_cross",
        lambda bench: _check(bench, _Halves(), [draw(3, 5, seed=s) for s in (0, 1)], FEW_PARTS),
    ),
    Scenario(
        "state_of_both",
        lambda bench: _check(bench, _Counter(), [draw(4, 4, seed=s) for s in range(3)], FEW_PARTS),
    ),
    Scenario("sizes_that_vary", _sizes_vary),
)
