"""The placement problem as plain data, and what an assignment costs.

Minimise, over assignments of nodes to devices, either the time of one call (compute of
every node, plus each value sent once to each device that needs it), the time of the
busiest device with what it receives, or the memory of the fullest.
"""

from collections.abc import Sequence
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


def lower_bound(problem: Problem) -> float:
    """What no assignment gets below, by the objective: transfers and whole nodes aside.

    The busiest device takes at least any weighted mean of all; with weights by speed that is
    the work shared out in fractions.
    """
    if problem.objective == "memory":
        return sum(weight.size for weight in problem.weights) / len(problem.devices)
    share = [1.0 for _ in problem.devices]
    if problem.objective == "throughput":
        alone = [sum(row[device] for row in problem.seconds) for device in problem.devices]
        speeds = [1.0 / seconds if seconds else 1.0 for seconds in alone]
        share = [speed / sum(speeds) for speed in speeds]
    return sum(
        min(share[device] * row[device] for device in allowed)
        for row, allowed in zip(problem.seconds, problem.allowed, strict=True)
    )


def gap(problem: Problem, assignment: Assignment, bound: float = 0.0) -> float:
    """How far `assignment` may be from the best, as a share of its own cost."""
    reached = evaluate(problem, assignment).objective(problem.objective)[0]
    bound = max(bound, lower_bound(problem))
    return max(0.0, 1 - bound / reached) if reached else 0.0


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
