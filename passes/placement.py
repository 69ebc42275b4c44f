"""The placement problem as plain data, what an assignment costs, and a first answer.

Minimise, over assignments of nodes to devices, either the time of one call (compute of
every node, plus each value sent once to each device that needs it), the time of the
busiest device, or the memory of the fullest. `first_assignment` always answers; a
solver may improve on it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Assignment = list[int]
"""Per node, the index of its device."""


@dataclass(frozen=True)
class Tensor:
    """A value: who makes it (a node, or a fixed device for an input) and who reads it.

    `readers` are nodes; `read_by_host` is the device results go back to, or None.
    """

    size: int
    producer: int | None
    home: int | None
    readers: tuple[int, ...]
    read_by_host: int | None = None


@dataclass(frozen=True)
class Weight:
    size: int
    readers: tuple[int, ...]


@dataclass(frozen=True)
class Problem:
    """`seconds[node][device]`, `latency[src][dst]` s and `per_byte[src][dst]` s/byte."""

    allowed: Sequence[Sequence[int]]
    seconds: Sequence[Sequence[float]]
    tensors: Sequence[Tensor]
    latency: Sequence[Sequence[float]]
    per_byte: Sequence[Sequence[float]]
    weights: Sequence[Weight] = ()
    live: Sequence[int] = ()
    memory: Sequence[int | None] = ()
    objective: str = "latency"

    @property
    def devices(self) -> range:
        return range(len(self.latency))

    def transfer(self, size: int, src: int, dst: int) -> float:
        return 0.0 if src == dst else self.latency[src][dst] + size * self.per_byte[src][dst]


@dataclass
class Evaluation:
    """What one assignment costs; `fits` is false when some device's memory is exceeded."""

    seconds: float = 0.0
    transfer_bytes: int = 0
    crossings: int = 0
    seconds_by_device: list[float] = field(default_factory=list)
    bytes_by_device: list[int] = field(default_factory=list)
    fits: bool = True

    def objective(self, name: str) -> tuple[float, float]:
        """Smaller is better; time breaks ties."""
        if name == "throughput":
            return max(self.seconds_by_device), self.seconds
        if name == "memory":
            return float(max(self.bytes_by_device)), self.seconds
        return self.seconds, float(self.transfer_bytes)


def source_of(tensor: Tensor, assignment: Assignment) -> int | None:
    return tensor.home if tensor.producer is None else assignment[tensor.producer]


def destinations(tensor: Tensor, assignment: Assignment) -> set[int]:
    found = {assignment[reader] for reader in tensor.readers}
    if tensor.read_by_host is not None:
        found.add(tensor.read_by_host)
    return found


def evaluate(problem: Problem, assignment: Assignment) -> Evaluation:
    result = Evaluation(
        seconds_by_device=[0.0 for _ in problem.devices],
        bytes_by_device=[0 for _ in problem.devices],
    )
    for node, device in enumerate(assignment):
        result.seconds_by_device[device] += problem.seconds[node][device]
    result.seconds = sum(result.seconds_by_device)
    for tensor in problem.tensors:
        source = source_of(tensor, assignment)
        if source is None:
            continue
        for device in destinations(tensor, assignment) - {source}:
            cost = problem.transfer(tensor.size, source, device)
            result.seconds += cost
            result.seconds_by_device[device] += cost
            result.transfer_bytes += tensor.size
            result.crossings += 1
    for weight in problem.weights:
        for device in {assignment[reader] for reader in weight.readers}:
            result.bytes_by_device[device] += weight.size
    for device in problem.devices:
        here = (live for live, d in zip(problem.live, assignment, strict=False) if d == device)
        result.bytes_by_device[device] += max(here, default=0)
    result.fits = all(
        limit is None or used <= limit
        for used, limit in zip(result.bytes_by_device, problem.memory, strict=False)
    )
    return result


def first_assignment(problem: Problem) -> Assignment | None:
    """The best of the simple answers, improved by moving runs of nodes; None if none fits."""
    best: Assignment | None = None
    for candidate in _simple_answers(problem):
        if evaluate(problem, candidate).fits and (
            best is None or _key(problem, candidate) < _key(problem, best)
        ):
            best = candidate
    return _improved(problem, best) if best is not None else None


def _key(problem: Problem, assignment: Assignment) -> tuple[float, float]:
    return evaluate(problem, assignment).objective(problem.objective)


def _simple_answers(problem: Problem) -> Iterable[Assignment]:
    """Everything on one device as far as legal; then prefixes on one, the rest on another."""

    def prefer(node: int, device: int) -> int:
        allowed = problem.allowed[node]
        if device in allowed:
            return device
        return min(allowed, key=lambda other: problem.seconds[node][other])

    count = len(problem.allowed)
    for device in problem.devices:
        yield [prefer(node, device) for node in range(count)]
    for split in range(1, 16):
        cut = count * split // 16
        for first in problem.devices:
            for second in problem.devices:
                if first != second:
                    yield [prefer(n, first if n < cut else second) for n in range(count)]


def _improved(problem: Problem, assignment: Assignment) -> Assignment:
    """Move runs of neighbours in program order while that helps."""
    best, key = list(assignment), _key(problem, assignment)
    count = len(assignment)
    rounds = 4 if count <= 64 else 1
    for _ in range(rounds):
        before = key
        for length in (1, 2, 4, 8, 16, 32):
            for start in range(0, max(1, count - length + 1), max(1, length // 2)):
                run = range(start, min(count, start + length))
                for device in problem.devices:
                    if any(device not in problem.allowed[node] for node in run):
                        continue
                    moved = [*best[: run.start], *([device] * len(run)), *best[run.stop :]]
                    if moved == best:
                        continue
                    result = evaluate(problem, moved)
                    if result.fits and result.objective(problem.objective) < key:
                        best, key = moved, result.objective(problem.objective)
        if key == before or count * count > 100_000:
            break
    return best
