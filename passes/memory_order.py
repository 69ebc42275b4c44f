"""The order of a graph's nodes that needs least memory: plain data in, an order out.

What is live depends only on which nodes have run, so an order is a path from the empty set to
the full one through sets that are closed under predecessors, and its peak is the most that one
step needs. A search that always extends the path of the lowest peak ends with the best there is
(Ahn et al., Ordering Chaos, MLSys 2020). A node that is ready, fits below the peak and leaves no
more behind than it finds may run at once, without looking at others: that holds wherever it
comes in an order. First a few paths are extended side by side, always the best of them: that finds
an order as good as the bound in most models. The search looks below what they reached; where it
must stop, what it has shown until then bounds what any order needs.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

_EXTENSIONS = 20_000
"""The most sets that the search reaches with a hundred nodes; with more, in proportion fewer."""
_STEPS = 50_000
"""The most steps that the paths side by side take together."""
_WIDEST = 32


@dataclass(frozen=True)
class OrderProblem:
    """Nodes and buffers by number. `touched[n]` are the buffers that node n reads or makes; a
    buffer is live from the first node that touches it to the last. Of `early` ones it is from the
    start, of `late` ones to the end. While n runs it needs `inside[n]` bytes more.
    """

    sizes: Sequence[int]
    touched: Sequence[Sequence[int]]
    before: Sequence[set[int]]
    inside: Sequence[int]
    early: frozenset[int] = frozenset()
    late: frozenset[int] = frozenset()

    def live(self, order: Sequence[int]) -> list[int]:
        """Bytes at each node of `order`, which must keep to `before`."""
        done, held, found = 0, self.start, []
        for node in order:
            step, held = self.step(done, held, node)
            found.append(step)
            done |= 1 << node
        return found

    def peak(self, order: Sequence[int]) -> int:
        return max(self.live(order), default=0)

    def step(self, done: int, held: int, node: int) -> tuple[int, int]:
        """What is live while `node` runs after `done`, where `held` bytes are, and afterwards."""
        left = ~(done | 1 << node)
        made = freed = 0
        for buffer in self.touched[node]:
            if not (self.masks[buffer] & done or buffer in self.early):
                made += self.sizes[buffer]
            if not (self.masks[buffer] & left or buffer in self.late):
                freed += self.sizes[buffer]
        return held + made + self.inside[node], held + made - freed

    @cached_property
    def start(self) -> int:
        return sum(self.sizes[buffer] for buffer in self.early)

    @cached_property
    def masks(self) -> list[int]:
        """Per buffer, the set of nodes that touch it."""
        masks = [0] * len(self.sizes)
        for node, touched in enumerate(self.touched):
            for buffer in touched:
                masks[buffer] |= 1 << node
        return masks

    @cached_property
    def needs(self) -> list[int]:
        """Per node, the set of nodes directly before it."""
        return [sum(1 << other for other in before) for before in self.before]

    @cached_property
    def followers(self) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in self.before]
        for node, before in enumerate(self.before):
            for other in before:
                found[other].append(node)
        return found

    def bound(self) -> int:
        """What no order gets below: at each node, what it touches and what must be live then,
        since something that comes before it and something that comes after it touch it."""
        above = [0] * len(self.before)
        below = [0] * len(self.before)
        order = self.topological()
        for node in order:
            for other in self.before[node]:
                above[node] |= above[other] | 1 << other
        for node in reversed(order):
            for other in self.followers[node]:
                below[node] |= below[other] | 1 << other
        most = 0
        for node, touched in enumerate(self.touched):
            own = set(touched)
            total = self.inside[node] + sum(self.sizes[buffer] for buffer in own)
            for buffer, mask in enumerate(self.masks):
                begun = mask & above[node] or buffer in self.early
                needed = mask & below[node] or buffer in self.late
                if buffer not in own and begun and needed:
                    total += self.sizes[buffer]
            most = max(most, total)
        return most

    def topological(self) -> list[int]:
        waiting = [len(before) for before in self.before]
        ready = [node for node, count in enumerate(waiting) if not count]
        heapq.heapify(ready)
        order = []
        while ready:
            node = heapq.heappop(ready)
            order.append(node)
            for follower in self.followers[node]:
                waiting[follower] -= 1
                if not waiting[follower]:
                    heapq.heappush(ready, follower)
        return order


@dataclass(frozen=True)
class Found:
    """An order, its peak in bytes, and what no order gets below."""

    order: list[int]
    peak: int
    bound: int


def least_memory(problem: OrderProblem, given: Sequence[int]) -> Found:
    """The best order found; `given` itself when nothing is better."""
    peak, bound = problem.peak(given), problem.bound()
    if peak <= bound:
        return Found(list(given), peak, bound)
    best = _side_by_side(problem, bound, peak)
    if best is not None:
        peak = problem.peak(best)
    if peak > bound:
        better, shown = _search(problem, bound, peak)
        bound = max(bound, shown)
        best = better or best
    return (
        Found(list(given), peak, bound) if best is None else Found(best, problem.peak(best), bound)
    )


@dataclass(order=True)
class _Path:
    """The nodes `done` so far; of equal peaks the longest path goes on first."""

    peak: int
    left: int
    held: int
    nodes: tuple[int, ...]
    done: int = field(compare=False)
    ready: tuple[int, ...] = field(compare=False)
    before: "_Path | None" = field(compare=False, default=None)

    def order(self) -> list[int]:
        path: _Path | None = self
        pieces = []
        while path is not None:
            pieces.append(path.nodes)
            path = path.before
        return [node for piece in reversed(pieces) for node in piece]


def _begin(problem: OrderProblem, bound: int) -> _Path:
    ready = tuple(node for node, needs in enumerate(problem.needs) if not needs)
    return _Path(bound, len(problem.needs), problem.start, (), 0, ready)


def _extended(problem: OrderProblem, path: _Path, node: int) -> _Path:
    """`path` with `node`, and with all that then may run at once."""
    step, held = problem.step(path.done, path.held, node)
    peak, done, ready, nodes = max(path.peak, step), path.done, list(path.ready), []
    following: int | None = node
    while following is not None:
        nodes.append(following)
        ready.remove(following)
        done |= 1 << following
        for follower in problem.followers[following]:
            if not problem.needs[follower] & ~done:
                ready.append(follower)
        following = None
        for candidate in sorted(ready):
            step, after = problem.step(done, held, candidate)
            if step <= peak and after <= held:
                following, held = candidate, after
                break
    return _Path(peak, path.left - len(nodes), held, tuple(nodes), done, tuple(ready), path)


def _search(problem: OrderProblem, bound: int, peak: int) -> tuple[list[int] | None, int]:
    """An order that needs least, if any needs less than `peak`, and what none gets below."""
    waiting, extensions = [_begin(problem, bound)], 0
    most = _EXTENSIONS * 100 // max(100, len(problem.before))
    known = {0: bound}
    while waiting:
        path = heapq.heappop(waiting)
        if not path.left:
            return path.order(), path.peak
        if path.peak > known[path.done]:
            continue
        if extensions > most:
            return None, path.peak
        for node in path.ready:
            extended = _extended(problem, path, node)
            if extended.peak < min(peak, known.get(extended.done, peak)):
                known[extended.done] = extended.peak
                heapq.heappush(waiting, extended)
        extensions += len(path.ready)
    return None, peak


def _side_by_side(problem: OrderProblem, bound: int, peak: int) -> list[int] | None:
    """The best of many paths, all extended in turn, if it needs less than `peak`."""
    paths, best = [_begin(problem, bound)], None
    while paths:
        extended: dict[int, _Path] = {}
        for path in paths:
            for node in path.ready:
                longer = _extended(problem, path, node)
                if longer.peak >= peak:
                    continue
                if not longer.left:
                    best, peak = longer.order(), longer.peak
                elif longer.done not in extended or longer < extended[longer.done]:
                    extended[longer.done] = longer
        branches = max(1, sum(len(path.ready) for path in paths) // len(paths))
        width = max(1, min(_WIDEST, _STEPS // (branches * len(problem.needs))))
        paths = heapq.nsmallest(width, extended.values(), key=lambda p: (p.peak, p.held, p.nodes))
    return best
