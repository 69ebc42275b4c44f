"""Assignments against all of them, on graphs small enough to try all."""

import itertools
import random
import signal
from pathlib import Path

import pytest

from lemurc.passes.placement import (
    Problem,
    Tensor,
    Weight,
    destinations,
    evaluate,
    source_of,
)
from lemurc.passes.placement_search import first_assignment

NODES = 7


def random_problem(seed: int, devices: int = 2, memory: bool = False, objective="latency"):
    draw = random.Random(seed)
    tensors = [Tensor(draw.randrange(1, 1000), None, 0, (0, 1), None)]
    for node in range(NODES - 1):
        readers = tuple(r for r in range(node + 1, NODES) if r == node + 1 or draw.random() < 0.3)
        tensors.append(Tensor(draw.randrange(1, 1000), node, None, readers, None))
    tensors.append(Tensor(8, NODES - 1, None, (), 0))
    allowed = [list(range(devices)) for _ in range(NODES)]
    allowed[draw.randrange(NODES)] = [draw.randrange(devices)]
    weights = [Weight(draw.randrange(100, 500) * 1024, (node,)) for node in range(NODES)]
    limit = sum(weight.size for weight in weights) * 2 // 3
    speed = [draw.uniform(0.5, 3) for _ in range(devices)]
    return Problem(
        allowed=allowed,
        seconds=[[draw.uniform(1, 5) / s * 1e-4 for s in speed] for _ in range(NODES)],
        tensors=tensors,
        latency=[[0 if a == b else 1e-5 for b in range(devices)] for a in range(devices)],
        per_byte=[[0 if a == b else 1e-7 for b in range(devices)] for a in range(devices)],
        weights=weights if memory or objective == "memory" else [],
        live=[1024] * NODES,
        memory=[limit] * devices if memory else [None] * devices,
        objective=objective,
    )


def best_of_all(problem):
    answers = (list(a) for a in itertools.product(*problem.allowed))
    fitting = [a for a in answers if evaluate(problem, a).fits]
    return min((evaluate(problem, a).objective(problem.objective) for a in fitting), default=None)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("devices", [2, 3])
def test_solver_finds_the_least_latency(seed: int, devices: int) -> None:
    solver = pytest.importorskip("lemurc.passes.placement_solver", exc_type=ImportError)
    problem = random_problem(seed, devices)
    found, verdict = solver.improve(problem, first_assignment(problem), 10.0)
    assert verdict == "optimal"
    seconds = evaluate(problem, found).seconds
    assert seconds == pytest.approx(best_of_all(problem)[0], rel=1e-4)


def test_interrupts_are_still_ours_after_solving() -> None:
    solver = pytest.importorskip("lemurc.passes.placement_solver", exc_type=ImportError)
    problem = random_problem(0)
    solver.improve(problem, first_assignment(problem), 10.0)
    # Python's own record of the handler would not show that C++ replaced it.
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("reads /proc")
    caught = next(line for line in status.read_text().splitlines() if line.startswith("SigCgt"))
    assert int(caught.split()[1], 16) & (1 << (signal.SIGINT - 1))


@pytest.mark.parametrize("objective", ["latency", "throughput", "memory"])
@pytest.mark.parametrize("seed", range(6))
def test_memory_limits_are_kept(objective: str, seed: int) -> None:
    solver = pytest.importorskip("lemurc.passes.placement_solver", exc_type=ImportError)
    problem = random_problem(seed, 2, memory=True, objective=objective)
    found, _ = solver.improve(problem, first_assignment(problem), 10.0)
    best = best_of_all(problem)
    if best is None:
        assert found is None
        return
    assert evaluate(problem, found).fits
    reached = evaluate(problem, found).objective(objective)[0]
    # memory is rounded up to KiB inside the solver
    assert reached == pytest.approx(best[0], rel=1e-4, abs=4096 if objective == "memory" else 0)


@pytest.mark.parametrize("seed", range(12))
def test_first_answer_is_valid_and_no_worse_than_one_device(seed: int) -> None:
    problem = random_problem(seed)
    first = first_assignment(problem)
    assert first is not None
    assert all(device in problem.allowed[node] for node, device in enumerate(first))
    for device in problem.devices:
        alone = [device if device in a else a[0] for a in problem.allowed]
        assert evaluate(problem, first).seconds <= evaluate(problem, alone).seconds


def test_none_when_nothing_fits() -> None:
    problem = Problem(
        allowed=[[0], [0]],
        seconds=[[1.0], [1.0]],
        tensors=[],
        latency=[[0.0]],
        per_byte=[[0.0]],
        weights=[Weight(10, (0,)), Weight(10, (1,))],
        live=[1, 1],
        memory=[20],
    )
    assert first_assignment(problem) is None


def test_a_value_is_sent_once_to_each_device() -> None:
    tensor = Tensor(100, 0, None, (1, 2, 3), 0)
    problem = Problem(
        allowed=[[0, 1]] * 4,
        seconds=[[0.0, 0.0]] * 4,
        tensors=[tensor],
        latency=[[0.0, 1.0], [1.0, 0.0]],
        per_byte=[[0.0, 0.01], [0.01, 0.0]],
    )
    result = evaluate(problem, [0, 1, 1, 0])
    assert (result.seconds, result.crossings, result.transfer_bytes) == (2.0, 1, 100)
    assert source_of(tensor, [0, 1, 1, 0]) == 0
    assert destinations(tensor, [0, 1, 1, 0]) == {0, 1}
