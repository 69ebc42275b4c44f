"""Placement without a solver: good answers fast, and a start for the solver.

Simple answers first: everything on one device as far as legal, and the program in pieces, in
its own order, one for each device, cut where a device has enough time or memory. The best is
improved by moving runs of neighbours while that helps.
"""

import itertools
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence

from lemurc.passes.placement import Assignment, Problem, evaluate

_PICO = 1e12
_FEW_DEVICES = 4
_FEW_MOVES = 1 << 11
_CUTS = 16
_HALVINGS = 12


def first_assignment(problem: Problem) -> Assignment | None:
    """The best that is found without a solver; None where nothing is found that fits."""
    best: Assignment | None = None
    for candidate in simple_answers(problem):
        if evaluate(problem, candidate).fits and (
            best is None or _key(problem, candidate) < _key(problem, best)
        ):
            best = candidate
    return improved(problem, best) if best is not None else None


def improved(problem: Problem, assignment: Assignment) -> Assignment:
    """Move runs of neighbours, in program order, to other devices while that helps."""
    tally = Tally(problem)
    for node, device in enumerate(assignment):
        tally.move(node, device)
    key = tally.key()
    count = len(assignment)
    every = count * len(problem.devices) <= _FEW_MOVES
    for _ in range(4):
        before = key
        for length in (1, 2, 4, 8, 16, 32):
            for start in range(0, max(1, count - length + 1), max(1, length // 2)):
                run = range(start, min(count, start + length))
                for device in problem.devices if every else _beside(tally.on, run):
                    moved = _moved(problem, tally, run, device)
                    if tally.fits() and tally.key() < key:
                        key = tally.key()
                    else:
                        for node, home in moved:
                            tally.move(node, home)
        if key == before:
            break
    return [device for device in tally.on if device is not None]


def _moved(
    problem: Problem, tally: "Tally", run: range, device: int
) -> list[tuple[int, int | None]]:
    """Move what may go there of `run`; the nodes that did, and where they were."""
    if any(device not in problem.allowed[node] for node in run):
        return []
    moved = [(node, tally.on[node]) for node in run if tally.on[node] != device]
    for node, _ in moved:
        tally.move(node, device)
    return moved


def _beside(on: Sequence[int | None], run: range) -> list[int]:
    """The devices of the nodes before and after `run`."""
    near = [on[at] for at in (run.start - 1, run.stop) if 0 <= at < len(on)]
    return [device for device in dict.fromkeys(near) if device is not None]


def _key(problem: Problem, assignment: Assignment) -> tuple[float, float]:
    return evaluate(problem, assignment).objective(problem.objective)


def simple_answers(problem: Problem) -> Iterator[Assignment]:
    """All on one device, and pieces in program order; they need not fit."""
    count = len(problem.allowed)
    for device in problem.devices:
        yield [_prefer(problem, node, device) for node in range(count)]
    pairs = itertools.permutations(problem.devices, 2)
    for first, second in pairs if len(problem.devices) <= _FEW_DEVICES else ():
        for split in range(1, _CUTS):
            cut = count * split // _CUTS
            yield [_prefer(problem, n, first if n < cut else second) for n in range(count)]
    for order in _orders(problem):
        yield from _pieces(problem, order)


def _orders(problem: Problem) -> Iterable[tuple[int, ...]]:
    """All of a few devices; of many, that of the description and those by speed."""
    if len(problem.devices) <= _FEW_DEVICES:
        return itertools.permutations(problem.devices)
    total = [sum(row[device] for row in problem.seconds) for device in problem.devices]
    fastest = tuple(sorted(problem.devices, key=lambda device: total[device]))
    return dict.fromkeys((tuple(problem.devices), fastest, fastest[::-1]))


def _pieces(problem: Problem, order: Sequence[int]) -> Iterator[Assignment]:
    """Pieces for the devices in `order` with the least seconds, or bytes, of the fullest."""
    if problem.objective == "latency":
        whole = _cut(problem, order, None)
        if whole is not None:
            yield whole
        return
    low, high = 0.0, _largest(problem, problem.objective)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = _cut(problem, order, middle)
        if found is None:
            low = middle
        else:
            high = middle
            yield found


def _largest(problem: Problem, objective: str) -> float:
    if objective == "memory":
        weights = sum(weight.size for weight in problem.weights)
        return float(weights + max(problem.live, default=0))
    return sum(max(row) for row in problem.seconds)


def _cut(problem: Problem, order: Sequence[int], limit: float | None) -> Assignment | None:
    """As much as `limit` and the memory allow on each device of `order`; None when that is
    not all. What may not go there goes where it is fastest."""
    tally = Tally(problem)
    left = list(order)
    for node in range(len(problem.allowed)):
        while True:
            device = _prefer(problem, node, left[0])
            tally.move(node, device)
            if tally.fits() and (limit is None or tally.load(device) <= limit):
                break
            tally.move(node, None)
            left.pop(0)
            if not left:
                return None
    return [device for device in tally.on if device is not None]


def _prefer(problem: Problem, node: int, device: int) -> int:
    allowed = problem.allowed[node]
    if device in allowed:
        return device
    return min(allowed, key=lambda other: problem.seconds[node][other])


class Tally:
    """What an assignment costs, kept up to date while nodes move; a node may be nowhere yet.

    Times are whole picoseconds, so that moving back restores them.
    """

    def __init__(self, problem: Problem) -> None:
        self.on: list[int | None] = [None] * len(problem.allowed)
        self._problem = problem
        devices = len(problem.devices)
        self._seconds = [[round(s * _PICO) for s in row] for row in problem.seconds]
        self._busy = [0] * devices
        self._moved = 0
        self._source = [tensor.home for tensor in problem.tensors]
        self._readers = [[0] * devices for _ in problem.tensors]
        self._reads: list[list[int]] = [[] for _ in self.on]
        self._makes: list[list[int]] = [[] for _ in self.on]
        for number, tensor in enumerate(problem.tensors):
            for reader in set(tensor.readers):
                self._reads[reader].append(number)
            if tensor.producer is not None:
                self._makes[tensor.producer].append(number)
            if tensor.read_by_host is not None:
                self._readers[number][tensor.read_by_host] = 1
                self._cross(number, tensor.read_by_host, 1)
        self._holders = [[0] * devices for _ in problem.weights]
        self._held = [0] * devices
        self._needs: list[list[int]] = [[] for _ in self.on]
        for number, weight in enumerate(problem.weights):
            for reader in set(weight.readers):
                self._needs[reader].append(number)
        self._live: list[list[int]] = [[] for _ in problem.devices]

    def move(self, node: int, device: int | None) -> None:
        """Put `node` on `device`, or nowhere."""
        home = self.on[node]
        self.on[node] = device
        if home is not None:
            self._count(node, home, -1)
        for number in self._makes[node]:
            readers = [d for d, count in enumerate(self._readers[number]) if count]
            for reader in readers:
                self._cross(number, reader, -1)
            self._source[number] = device
            for reader in readers:
                self._cross(number, reader, 1)
        if device is not None:
            self._count(node, device, 1)

    def load(self, device: int) -> float:
        """Of one device, what the objective looks at: its bytes, or else its seconds."""
        if self._problem.objective == "memory":
            return self._bytes(device)
        return self._busy[device] / _PICO

    def key(self) -> tuple[int, int]:
        """Smaller is better, as with Evaluation.objective."""
        total = sum(self._busy)
        if self._problem.objective == "throughput":
            return max(self._busy), total
        if self._problem.objective == "memory":
            return max(self._bytes(device) for device in self._problem.devices), total
        return total, self._moved

    def fits(self) -> bool:
        return all(
            limit is None or self._bytes(device) <= limit
            for device, limit in enumerate(self._problem.memory)
        )

    def _bytes(self, device: int) -> int:
        live = self._live[device]
        return self._held[device] + (live[-1] if live else 0)

    def _count(self, node: int, device: int, change: int) -> None:
        self._busy[device] += change * self._seconds[node][device]
        for number in self._reads[node]:
            readers = self._readers[number]
            if change < 0 and readers[device] == 1:
                self._cross(number, device, -1)
            readers[device] += change
            if change > 0 and readers[device] == 1:
                self._cross(number, device, 1)
        for number in self._needs[node]:
            holders = self._holders[number]
            holders[device] += change
            if holders[device] == (1 if change > 0 else 0):
                self._held[device] += change * self._problem.weights[number].size
        if node < len(self._problem.live):
            live, size = self._live[device], self._problem.live[node]
            if change > 0:
                insort(live, size)
            else:
                live.pop(bisect_left(live, size))

    def _cross(self, number: int, reader: int, change: int) -> None:
        """Add, or take back, the way of a value to a device that reads it."""
        source = self._source[number]
        if source is None or source == reader:
            return
        size = self._problem.tensors[number].size
        seconds = self._problem.transfer(size, source, reader)
        self._busy[reader] += change * round(seconds * _PICO)
        self._moved += change * size
