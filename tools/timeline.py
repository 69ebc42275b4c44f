"""When the work of a planned call would run, and when it ran.

A device computes one stage at a time, in the order of the plan, and a link moves one value at
a time; both begin when what they need is there. A prediction adds all of it up instead: what
overlaps is told apart here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lemurc.tools.plan import PlannedFunction


@dataclass(frozen=True)
class Span:
    """`kind` is "stage" or "transfer", `name` the stage or the value, `lane` a device or
    "source -> target"; seconds from the begin of the call."""

    kind: str
    name: str
    lane: str
    begin: float
    end: float
    bytes: int | None = None


def predicted(
    function: PlannedFunction, seconds: Mapping[str, float] | None = None
) -> tuple[Span, ...]:
    """As predicted, or with other `seconds` of stages; () where the plan has no prediction."""
    taken = {step.stage: step.seconds for step in function.steps} | dict(seconds or {})
    spans: list[Span] = []
    there: dict[tuple[str, str], float] = {}
    free: dict[str, float] = {}

    def send(before: int) -> None:
        for item in function.transfers:
            if item.before == before:
                lane = f"{item.source} -> {item.target}"
                begin = max(free.get(lane, 0.0), there.get((item.value, item.source), 0.0))
                free[lane] = there[item.value, item.target] = begin + item.seconds
                spans.append(Span("transfer", item.value, lane, begin, free[lane], item.bytes))

    for number, step in enumerate(function.steps):
        send(number)
        needed = taken[step.stage]
        if needed is None:
            return ()
        arrived = [there.get((value, step.device), 0.0) for value in step.reads]
        begin = max([free.get(step.device, 0.0), *arrived])
        free[step.device] = begin + needed
        there.update({(value, step.device): begin + needed for value in step.makes})
        spans.append(Span("stage", step.stage, step.device, begin, begin + needed))
    send(len(function.steps))
    return tuple(spans)


def memory(function: PlannedFunction, spans: tuple[Span, ...]) -> dict[str, list[list[float]]]:
    """Per device: (seconds, bytes of values and temporaries from then on), over `spans`."""
    changes: list[tuple[float, int, str, int]] = []
    steps = {step.stage: step for step in function.steps}
    for span in spans:
        if span.kind == "transfer":
            target = span.lane.partition(" -> ")[2]
            changes.append((span.end, 1, target, span.bytes or 0))
            continue
        step = steps[span.name]
        changes.append((span.begin, 2, span.lane, step.memory or 0))
        changes.append((span.end, 0, span.lane, step.held or 0))
    levels: dict[str, list[list[float]]] = {device: [[0.0, 0.0]] for device in function.memory}
    for when, order, device, size in sorted(changes):
        if device in levels:
            level = levels[device][-1][1] + size if order == 1 else float(size)
            levels[device].append([when, level])
    return levels
