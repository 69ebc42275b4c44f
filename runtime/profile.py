"""How long each step of a plan takes: calls in which stages wait for each other.

A time runs from handing a stage to its device until its results are there. Transfers are
not part of it. Where other programs have the processors meanwhile, that is subtracted, if
the operating system tells: it is not the model's time.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lemurc.manifest import Step
from lemurc.runtime.call import Call, Operation
from lemurc.runtime.machine import ThreadTimes
from lemurc.runtime.operations import Invoke, InvokeHost
from lemurc.runtime.plugin_operations import InvokePlugin
from lemurc.runtime.session import Session

INVOKES = (Invoke, InvokeHost, InvokePlugin)


@dataclass(frozen=True)
class StepTimes:
    """One step: a number of seconds per call; `device` is the machine's.

    `wall` is wall time, `seconds` that without waiting for a processor.
    """

    step: Step
    device: str
    wall: tuple[float, ...]
    seconds: tuple[float, ...]

    @property
    def minimum(self) -> float:
        """The call that was disturbed least."""
        return min(self.seconds)


def step_times(
    session: Session,
    function: str,
    arrays: Sequence[Any],
    *,
    warmup: int = 3,
    calls: int = 50,
    limit: float = 10.0,
) -> list[StepTimes]:
    """The times of every step of `function`, over `calls` calls or as many as `limit` seconds
    have room for, at least one, each from the state the model was compiled with. `arrays` are
    checked inputs. The session's own state stays as it is.
    """
    timed: list[_Timer] = []
    with session.copy() as own:
        begin = time.perf_counter()
        while len(timed) < warmup + calls:
            own.reset()  # a cache would be full some day
            timer = _Timer()
            own.measured(function, list(arrays), timer.issue)
            timed.append(timer)
            if time.perf_counter() - begin > limit:
                break
        steps = own.plan.steps[function]
        names = dict(zip((d.name for d in own.plan.devices), own.devices, strict=True))
    kept = timed[min(warmup, len(timed) - 1) :]
    return [
        StepTimes(
            step,
            names[step.device],
            tuple(timer.wall[number] for timer in kept),
            tuple(timer.wall[number] - timer.lost[number] for timer in kept),
        )
        for number, step in enumerate(steps)
    ]


@dataclass
class _Timer:
    """Issues operations one at a time, and times those that are stages."""

    wall: list[float] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)

    def issue(self, operation: Operation, call: Call) -> None:
        before = ThreadTimes.now() if isinstance(operation, INVOKES) else None
        start = time.perf_counter()
        call.issue(operation)
        call.wait()
        if before is not None:
            self.wall.append(time.perf_counter() - start)
            lost = ThreadTimes.now().lost_since(before, self.wall[-1])
            # simulated devices sleep, and others on the machine compute meanwhile
            self.lost.append(lost if call.issuer is None else 0.0)
