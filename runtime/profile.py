"""How long each step of a plan takes: a call in which stages wait for each other.

Times are wall time from handing a stage to its device until its results are there, on an
otherwise idle session. Transfers are counted on their own.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lemurc.manifest import Step
from lemurc.runtime.operations import Call, Invoke, Operation
from lemurc.runtime.session import Session


@dataclass(frozen=True)
class StepTimes:
    """`seconds` of one step, a number per call; `device` is the machine's."""

    step: Step
    device: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return float(np.median(self.seconds))

    @property
    def minimum(self) -> float:
        return min(self.seconds)


def step_times(
    session: Session,
    function: str,
    arrays: Sequence[Any],
    *,
    warmup: int = 3,
    calls: int = 10,
    limit: float = 2.0,
) -> list[StepTimes]:
    """The times of every step of `function`, over `calls` calls or `limit` seconds.

    `arrays` are checked inputs. The session's state is left as it was.
    """
    times: list[list[float]] = []
    with session.copy() as own:
        begin = time.perf_counter()
        for number in range(warmup + calls):
            timer = _Timer()
            own.measured(function, list(arrays), timer.issue)
            if number >= warmup:
                times.append(timer.seconds)
            if times and time.perf_counter() - begin > limit:
                break
        steps = own.plan.steps[function]
        names = dict(zip((d.name for d in own.plan.devices), own.devices, strict=True))
    return [
        StepTimes(step, names[step.device], tuple(call[number] for call in times))
        for number, step in enumerate(steps)
    ]


@dataclass
class _Timer:
    """Issues operations one at a time; the seconds of stages, in order."""

    seconds: list[float] = field(default_factory=list)

    def issue(self, operation: Operation, call: Call) -> None:
        start = time.perf_counter()
        operation.issue(call)
        for line in call.work.timelines():
            if line.value > call.begun(line):
                line.wait()
        if isinstance(operation, Invoke):
            self.seconds.append(time.perf_counter() - start)
