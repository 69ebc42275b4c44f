"""Threads that take the time at which queued work ends."""

import contextlib
import queue
import threading
import time
from dataclasses import dataclass

from lemurc.errors import LemurcError
from lemurc.runtime.call import Pending
from lemurc.runtime.devices import OpenDevice
from lemurc.runtime.iree_errors import translated
from lemurc.runtime.timeline import Timeline

_SLICE_NS = 20_000_000
_TRIALS = 64


class Watcher:
    """Takes the time at which a timeline reaches each of its points after `value`."""

    def __init__(self, line: Timeline, value: int) -> None:
        self._line = line
        self._looked = value
        self._woken: dict[int, float] = {}
        self._known: dict[int, float] = {}
        self._stopping = False
        self._thread = threading.Thread(
            target=self._run, args=(value + 1,), name=f"lemurc {line.device.name}", daemon=True
        )
        self._thread.start()

    def look(self) -> None:
        """Note what is done by now, on a thread that is running anyway."""
        try:
            reached = int(self._line.semaphore.query())
        except RuntimeError:
            return  # it failed: the call says so
        now = time.perf_counter()
        for value in range(self._looked + 1, reached + 1):
            self._known[value] = now
        self._looked = max(self._looked, reached)

    def end(self, value: int) -> float | None:
        """When a point was reached, as far as known; None if it never was."""
        known = [times[value] for times in (self._woken, self._known) if value in times]
        return min(known, default=None)

    def stop(self) -> None:
        """After the last call: what was queued is done."""
        self._stopping = True
        self._thread.join()

    def _run(self, value: int) -> None:
        while not (self._stopping and value > self._line.value):
            try:
                with translated("run", self._line.device.name):
                    reached = self._line.semaphore.wait(value, timeout=_SLICE_NS)
            except LemurcError:
                return
            if reached:
                self._woken[value] = time.perf_counter()
                value += 1


@dataclass
class Submitted:
    """Work of a plug-in's device."""

    begin: float
    end: float = 0.0


class Waiter:
    """Takes the time at which submissions to a device of a plug-in end, one after another."""

    def __init__(self, device: str) -> None:
        self._given: queue.SimpleQueue[tuple[Pending, Submitted] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"lemurc {device}", daemon=True)
        self._thread.start()

    def add(self, pending: Pending, begin: float) -> Submitted:
        submitted = Submitted(begin)
        self._given.put((pending, submitted))
        return submitted

    def stop(self) -> None:
        self._given.put(None)
        self._thread.join()

    def _run(self) -> None:
        before = 0.0
        while (given := self._given.get()) is not None:
            pending, submitted = given
            with contextlib.suppress(LemurcError):  # the call says so
                pending.wait()
            submitted.begin = max(submitted.begin, before)
            before = submitted.end = time.perf_counter()


def lateness(device: OpenDevice) -> tuple[float, float]:
    """Median and 90th percentile of how late a time is taken, in seconds, on an idle device."""
    line = Timeline(device)
    watcher = Watcher(line, 0)
    signalled = {}
    for value in range(1, _TRIALS + 1):
        time.sleep(2e-4)
        line.value = value
        signalled[value] = time.perf_counter()
        line.semaphore.signal(value)
    watcher.stop()
    late = sorted((watcher.end(value) or begin) - begin for value, begin in signalled.items())
    return late[_TRIALS // 2], late[_TRIALS * 9 // 10]
