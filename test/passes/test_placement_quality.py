"""The solver against all assignments of random graphs, and on a large one in time."""

import dataclasses
import random
import time

import numpy as np
import pytest

from lemurc.passes.placement import Problem, Tensor, Weight, evaluate, lower_bound
from lemurc.passes.placement_search import Tally, first_assignment

OBJECTIVES = ("latency", "throughput", "memory")
GRAPHS = 200


def random_problem(seed):
    """Up to ten nodes and three devices, of all shapes; a third of them short of memory."""
    draw = random.Random(seed)
    nodes, devices = draw.randint(2, 10), draw.randint(2, 3)
    tensors = [Tensor(draw.randrange(1, 1000), None, 0, (0, *draw.choices(range(nodes))), None)]
    for node in range(nodes - 1):
        readers = [r for r in range(node + 1, nodes) if draw.random() < 0.35]
        tensors.append(Tensor(draw.randrange(1, 1000), node, None, tuple(readers), None))
    tensors.append(Tensor(8, nodes - 1, None, (), draw.choice([0, None])))
    weights = [
        Weight(draw.randrange(1, 500) * 1024, tuple({node, draw.randrange(nodes)}))
        for node in range(nodes)
    ]
    speed = [draw.uniform(0.25, 4) for _ in range(devices)]
    apart = [[0 if a == b else draw.uniform(0, 5e-5) for b in range(devices)] for a in speed]
    allowed = [
        draw.sample(range(devices), draw.choice([1, devices, devices, devices]))
        for _ in range(nodes)
    ]
    total = sum(weight.size for weight in weights)
    limit = draw.choice([None, None, int(total * draw.uniform(0.5, 0.9))])
    same = draw.random() < 0.5  # links that are alike, and ones that are not
    return Problem(
        allowed=[sorted(choice) for choice in allowed],
        seconds=[[draw.uniform(1, 9) / s * 1e-4 for s in speed] for _ in range(nodes)],
        tensors=tensors,
        latency=[
            [0.0 if a == b else 1e-5 if same else apart[a][b] for b in range(devices)]
            for a in range(devices)
        ],
        per_byte=[[0.0 if a == b else 1e-7 for b in range(devices)] for a in range(devices)],
        weights=weights,
        live=[draw.randrange(1, 200) * 1024 for _ in range(nodes)],
        memory=[limit] * devices,
    )


def best_of_all(problem):
    """The least seconds, busiest device and bytes of the fullest, over all that fit, or None.

    Written apart from `evaluate`: all assignments at once.
    """
    grid = np.meshgrid(*(np.array(choice) for choice in problem.allowed), indexing="ij")
    on = np.stack([axis.ravel() for axis in grid])  # [node, assignment]
    busy = np.zeros((len(problem.devices), on.shape[1]))
    held = np.zeros_like(busy)
    for device in problem.devices:
        here = on == device
        busy[device] += np.array([row[device] for row in problem.seconds]) @ here
        for tensor in problem.tensors:
            reads = here[list(tensor.readers)].any(axis=0)
            reads |= tensor.read_by_host == device
            source = on[tensor.producer] if tensor.producer is not None else tensor.home
            for other in problem.devices:
                if other != device:
                    crosses = reads & (source == other)
                    busy[device] += crosses * problem.transfer(tensor.size, other, device)
        for weight in problem.weights:
            held[device] += weight.size * here[list(weight.readers)].any(axis=0)
        held[device] += (np.array(problem.live)[:, None] * here).max(axis=0)
    limits = np.array([np.inf if m is None else m for m in problem.memory])
    fits = (held <= limits[:, None]).all(axis=0)
    if not fits.any():
        return None
    return {
        "latency": busy.sum(axis=0)[fits].min(),
        "throughput": busy.max(axis=0)[fits].min(),
        "memory": held.max(axis=0)[fits].min(),
    }


@pytest.mark.parametrize("part", range(8))
def test_the_solver_finds_the_best(part):
    solver = pytest.importorskip("lemurc.passes.placement_solver", exc_type=ImportError)
    for seed in range(part, GRAPHS, 8):
        best = best_of_all(random_problem(seed))
        for objective in OBJECTIVES:
            problem = dataclasses.replace(random_problem(seed), objective=objective)
            incumbent = first_assignment(problem)
            found, verdict = solver.improve(problem, incumbent, 10.0)
            if best is None:
                assert found is None, seed
                continue
            assert verdict == "optimal", seed
            result = evaluate(problem, found)
            reached = result.objective(objective)[0]
            # the solver counts whole nanoseconds, and whole KiB of each weight
            assert reached == pytest.approx(best[objective], rel=1e-5), (seed, objective)
            assert result.fits
            assert lower_bound(problem) <= reached * (1 + 1e-9), seed


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_tally_is_what_evaluation_says(objective):
    draw = random.Random(3)
    for seed in range(40):
        problem = dataclasses.replace(random_problem(seed), objective=objective)
        tally = Tally(problem)
        assignment = [draw.choice(choice) for choice in problem.allowed]
        for node, device in enumerate(assignment):
            tally.move(node, device)
        for _ in range(30):
            node = draw.randrange(len(assignment))
            assignment[node] = draw.choice(problem.allowed[node])
            tally.move(node, None if draw.random() < 0.3 else assignment[node])
            tally.move(node, assignment[node])
        want = evaluate(problem, assignment)
        scale = [1 if objective == "memory" else 1e12, 1 if objective == "latency" else 1e12]
        got = [value / unit for value, unit in zip(tally.key(), scale, strict=True)]
        assert got == pytest.approx(want.objective(objective), rel=1e-6)
        assert tally.fits() == want.fits


def transformer(layers, devices):
    """Groups of a layer as `fuse` leaves them: attention and its products, the MLP, norms."""
    share = [0.02, 0.25, 0.06, 0.08, 0.02, 0.28, 0.27, 0.02]
    size = 1 << 16
    seconds, tensors, weights = [], [], []
    for layer in range(layers):
        first = layer * len(share)
        for k, part in enumerate(share):
            node = first + k
            seconds.append([1e-3 * part * (1 + 0.5 * device) for device in range(devices)])
            weights.append(Weight(int(part * (3 << 20)), (node,)))
            last = first + len(share)
            readers = {min(node + 1, layers * len(share) - 1)}
            if k in (3, 7) and last + 3 < layers * len(share):
                readers.add(first + 7 if k == 3 else last + 3)
            tensors.append(Tensor(size, node, None, tuple(readers - {node}), None))
    tensors.append(Tensor(size, None, 0, (0,), None))
    tensors.append(Tensor(size, len(seconds) - 1, None, (), 0))
    apart = [[0.0 if a == b else 1.0 for b in range(devices)] for a in range(devices)]
    return Problem(
        allowed=[list(range(devices))] * len(seconds),
        seconds=seconds,
        tensors=tensors,
        latency=[[5e-5 * x for x in row] for row in apart],
        per_byte=[[1e-10 * x for x in row] for row in apart],
        weights=weights,
        live=[4 * size] * len(seconds),
        memory=[None] * devices,
    )


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_large_transformer_is_placed_in_time(objective):
    solver = pytest.importorskip("lemurc.passes.placement_solver", exc_type=ImportError)
    problem = dataclasses.replace(transformer(48, 8), objective=objective)
    begin = time.process_time()
    found, verdict = solver.improve(problem, first_assignment(problem), 2.0)
    assert time.process_time() - begin < 10
    assert verdict == "optimal" or "of the optimum" in verdict
    reached = evaluate(problem, found).objective(objective)[0]
    assert reached <= lower_bound(problem) * 1.08


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_times_of_years_are_no_matter(objective):
    solver = pytest.importorskip("lemurc.passes.placement_solver", exc_type=ImportError)
    problem = dataclasses.replace(transformer(2, 3), objective=objective)
    years = [[1e14 * took for took in seconds] for seconds in problem.seconds]
    problem = dataclasses.replace(problem, seconds=years)
    found, verdict = solver.improve(problem, first_assignment(problem), 2.0)
    assert verdict == "optimal"
    assert evaluate(problem, found).objective(objective)[0] <= 1.001 * min(
        evaluate(problem, [device] * len(years)).objective(objective)[0] for device in range(3)
    )
