"""Orders for little memory: exact where the graph is small, never worse than what is given."""

import itertools
import random

import pytest

from lemurc.passes import memory_order
from lemurc.passes.memory_order import OrderProblem, least_memory


def random_problem(draw: random.Random, nodes: int, density: float) -> OrderProblem:
    """Each node makes a buffer of its own, and some are views of what they read."""
    before = [{p for p in range(n) if draw.random() < density} for n in range(nodes)]
    buffers: list[int] = []
    sizes: list[int] = []
    for node in range(nodes):
        if before[node] and draw.random() < 0.15:
            buffers.append(buffers[min(before[node])])
            continue
        buffers.append(len(sizes))
        sizes.append(draw.choice([0, 1, 2, 5, 8, 30]))
    touched = [
        sorted({buffers[node], *(buffers[p] for p in before[node])}) for node in range(nodes)
    ]
    inside = [draw.choice([0, 0, 0, 4]) for _ in range(nodes)]
    some = [b for b in range(len(sizes)) if draw.random() < 0.1]
    return OrderProblem(sizes, touched, before, inside, late=frozenset(some))


def every_order(problem: OrderProblem):
    for order in itertools.permutations(range(len(problem.before))):
        done: set[int] = set()
        for node in order:
            if not problem.before[node] <= done:
                break
            done.add(node)
        else:
            yield order


def live_by_definition(problem: OrderProblem, order) -> list[int]:
    found = []
    for place, node in enumerate(order):
        live = problem.inside[node]
        for buffer, size in enumerate(problem.sizes):
            places = [k for k, n in enumerate(order) if buffer in problem.touched[n]]
            first = 0 if buffer in problem.early else min(places, default=len(order))
            last = len(order) if buffer in problem.late else max(places, default=-1)
            live += size if first <= place <= last else 0
        found.append(live)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_small_graphs_get_the_best_order(seed: int) -> None:
    draw = random.Random(seed)
    problem = random_problem(draw, 7, draw.choice([0.15, 0.3, 0.5]))
    orders = list(every_order(problem))
    peaks = [problem.peak(order) for order in orders]
    assert problem.live(orders[0]) == live_by_definition(problem, orders[0])
    assert problem.bound() <= min(peaks)
    for given in (orders[0], orders[-1]):
        found = least_memory(problem, given)
        assert found.peak == found.bound == min(peaks)
        assert tuple(found.order) in orders
        assert problem.peak(found.order) == found.peak
        if problem.peak(given) == found.peak:
            assert found.order == list(given)


@pytest.mark.parametrize("seed", range(6))
def test_what_the_search_cannot_finish_is_no_worse_and_bounded(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    problem = random_problem(draw, 24, 0.12)
    given = problem.topological()
    best = least_memory(problem, given)
    assert best.peak == best.bound
    monkeypatch.setattr(memory_order, "_EXTENSIONS", 3)
    monkeypatch.setattr(memory_order, "_WIDEST", 1)
    quick = least_memory(problem, given)
    assert quick.bound <= best.peak <= quick.peak <= problem.peak(given)
    done: set[int] = set()
    for node in quick.order:
        assert problem.before[node] <= done
        done.add(node)
    assert len(done) == 24


def test_a_large_graph_is_ordered_in_time() -> None:
    """1,500 nodes, thirty branches at a time: each must run to its end before the next."""
    before: list[set[int]] = []
    sizes: list[int] = []
    touched: list[list[int]] = []
    join = None

    def add(reads: list[int], size: int) -> int:
        before.append(set(reads))
        touched.append([*reads, len(sizes)])
        sizes.append(size)
        return len(sizes) - 1

    for _ in range(16):
        wide = [add([] if join is None else [join], 100) for _ in range(30)]
        middle = [add([node], 100) for node in wide]
        join = add([add([node], 1) for node in middle], 1)
    problem = OrderProblem(sizes, touched, before, [0] * len(sizes))
    found = least_memory(problem, problem.topological())
    assert problem.peak(problem.topological()) > 3000
    assert found.peak <= 200 + 30 + 1
    assert found.bound <= found.peak
