"""Calls of a session with the times of all their work, and the trace file of them."""

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from lemurc import __version__
from lemurc.runtime.recorder import Recorder, Work, lateness
from lemurc.tools.chrome_trace import CallTime, document
from lemurc.tools.whole_files import write_text


class Recording(AbstractContextManager["Recording"]):
    """Inside the block, `call()` surrounds each call; afterwards all is known.

    `late` is how late times are taken here, median and 90th percentile in seconds.
    """

    def __init__(self, session: Any) -> None:
        self.calls: list[CallTime] = []
        self.late = lateness(session.open_devices[0])
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

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        assert self._recorder is not None
        self._recorder.look()
        self.calls.append(CallTime(begin, time.perf_counter()))

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
