"""Calls of a session with the times of all their work, and the trace file of them."""

import contextlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from lemurc import __version__
from lemurc.runtime.clocks import lateness
from lemurc.runtime.devices import OpenDevice
from lemurc.runtime.recorded_work import Work
from lemurc.runtime.recorder import Recorder
from lemurc.runtime.transport import host_device
from lemurc.tools.chrome_trace import CallTime, document
from lemurc.tools.whole_files import write_text


class Recording(AbstractContextManager["Recording"]):
    """Inside the block, `call()` surrounds each call; afterwards all is known.

    `late` is how late times are taken here, median and 90th percentile in seconds.
    """

    def __init__(self, session: Any) -> None:
        self.calls: list[CallTime] = []
        # simulated devices take their times on the thread that does the work
        self.late = (0.0, 0.0) if session.simulated else lateness(_watched(session))
        self._given: list[float] = []
        self._session = session
        self._recorder: Recorder | None = None
        self._stack = ExitStack()

    def __enter__(self) -> "Recording":
        self._recorder = self._stack.enter_context(self._session.recorded())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()
        for number, given in enumerate(self._given):
            begin = min(item.begin for item in self.work if item.call == number)
            self.calls.append(CallTime(begin, given))

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        assert self._recorder is not None
        self._recorder.look()
        self.calls.append(CallTime(begin, time.perf_counter()))

    def stream(self, function: str, requests: Iterable[Any]) -> None:
        """Several calls in flight; each lasts until its result is given."""
        assert self._recorder is not None
        for _ in self._session.stream(requests, function=function):
            self._recorder.look()
            self._given.append(time.perf_counter())

    def forget(self) -> None:
        """Leave out the calls so far."""
        assert self._recorder is not None
        self._recorder.forget()
        self.calls.clear()

    @property
    def work(self) -> tuple[Work, ...]:
        assert self._recorder is not None
        return self._recorder.work

    def write(self, path: str | Path, function: str) -> None:
        """The trace of what was recorded, for Perfetto."""
        session = self._session
        about = {
            "made_by": f"lemurc {__version__}",
            "model": session.manifest.model,
            "function": function,
            "placement": session.placement_line(function),
            "calls": len(self.calls),
            "late_median_us": self.late[0] * 1e6,
            "late_p90_us": self.late[1] * 1e6,
            "clock": "time.perf_counter of the host, for all devices",
        }
        text = json.dumps(document(self.work, self.calls, self._stages(function), about))
        write_text(path, text + "\n")

    def _stages(self, function: str) -> dict[str, Mapping[str, Any]]:
        """What a slice says of each stage besides its time."""
        plan, stages = self._session.plan, self._session.manifest.stages
        steps = plan.steps[function]
        predicted = plan.predicted.get(function)
        seconds = predicted.seconds_by_step if predicted is not None else ()
        expected = dict(zip((step.stage for step in steps), seconds, strict=False))
        return {
            step.stage: {
                "title": " ".join([step.stage, ", ".join(stages[step.stage].paths)]).rstrip(),
                "modules": list(stages[step.stage].paths),
                "operations": stages[step.stage].ops,
                "flops": stages[step.stage].cost.flops,
                "bytes_moved": stages[step.stage].cost.bytes_read
                + stages[step.stage].cost.bytes_written,
                **({"predicted_us": expected[step.stage] * 1e6} if step.stage in expected else {}),
            }
            for step in steps
        }


def _watched(session: Any) -> OpenDevice:
    """A device with timelines, which those of plug-ins have not."""
    own = [device for device in session.open_devices if device.plugin is None]
    return own[0] if own else host_device()
