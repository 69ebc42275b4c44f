"""When the operations of calls begin and end, while calls run as they always do.

Each timeline has a thread that waits for its next point and looks at the clock: that is when a
piece of work ended, late by the time it takes to wake a thread, which `lateness` measures. Work
that others waited for ended before they did. Work began when the last thing it waited for had
ended, or when it was queued. All times are of one clock of the host, `time.perf_counter`, so
that devices can be compared.
"""

import sys
import threading
import time
import weakref
from collections.abc import Iterable
from types import TracebackType

from lemurc.runtime.call import Call, Issuer, Operation, Queued
from lemurc.runtime.clocks import Waiter, Watcher
from lemurc.runtime.operation_facts import Names, size_of
from lemurc.runtime.operations import Feed
from lemurc.runtime.plugin_operations import InvokePlugin
from lemurc.runtime.program import Program
from lemurc.runtime.recorded_work import Issued, Work, assembled
from lemurc.runtime.timeline import Timeline

_SWITCH_SECONDS = 5e-5
"""How long a thread that computes in Python may keep one waiting that has a time to take."""


class Recorder:
    """`issue` is handed to calls; `work` is there when the block of `with` is left."""

    def __init__(self, programs: Iterable[Program]) -> None:
        self.work: tuple[Work, ...] = ()
        self._names = Names(programs)
        self._numbers: weakref.WeakKeyDictionary[Call, int] = weakref.WeakKeyDictionary()
        self._issued: list[Issued] = []
        self._watchers: dict[Timeline, Watcher] = {}
        self._waiters: dict[str, Waiter] = {}
        self._lock = threading.Lock()
        self._count = 0
        self._interval = sys.getswitchinterval()

    def __enter__(self) -> "Recorder":
        sys.setswitchinterval(_SWITCH_SECONDS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for watcher in self._watchers.values():
            watcher.stop()
        for waiter in self._waiters.values():
            waiter.stop()
        sys.setswitchinterval(self._interval)
        self.work = tuple(assembled(self._issued, self._watchers, self._names))

    def issue(self, operation: Operation, call: Call) -> None:
        """Issue an operation and note what work it queued."""
        if call.issuer is not None:
            self._issue_simulated(operation, call, call.issuer)
            return
        number = self._number(call)
        before = {line: line.value for line in call.work.timelines()}
        self._watch(before)
        waits = tuple(call.ready[cell] for cell in operation.reads)
        begin = time.perf_counter()
        call.issue(operation)
        end = time.perf_counter()
        after = {line: before.get(line, 0) for line in call.work.timelines()}
        self._watch(after)
        points = tuple(
            (line, value)
            for line, known in after.items()
            for value in range(known + 1, line.value + 1)
        )
        ready = tuple(call.ready[cell] for cell in operation.makes)
        size = size_of(operation, call)
        with self._lock:
            queued = self._submitted(operation, call, begin)
            self._issued.append(
                Issued(operation, number, begin, end, waits, points, ready, size, queued)
            )
        self.look()

    def _submitted(self, operation: Operation, call: Call, begin: float) -> tuple[Queued, ...]:
        """Devices of plug-ins have no timelines: a thread waits for what they were given."""
        if not isinstance(operation, InvokePlugin) or not operation.outputs:
            return ()
        name, cell = operation.executor.device.name, operation.outputs[0]
        if name not in self._waiters:
            self._waiters[name] = Waiter(name)
        ran = self._waiters[name].add(call.pending[cell], begin)
        return (Queued("stage", name, cell, ran=ran),)

    def _issue_simulated(self, operation: Operation, call: Call, issuer: Issuer) -> None:
        """Simulated devices know when they work."""
        number = self._number(call)
        begin = time.perf_counter()
        call.issue(operation)
        end = time.perf_counter()
        ready = (None,) * len(operation.makes)
        size = size_of(operation, call) if isinstance(operation, Feed) else None
        queued = tuple(issuer.queued())
        with self._lock:
            self._issued.append(Issued(operation, number, begin, end, (), (), ready, size, queued))

    def forget(self) -> None:
        """Leave out the calls so far, which are done."""
        with self._lock:
            self._issued.clear()
            self._count = 0

    def look(self) -> None:
        """Note what has ended by now: threads that were woken for it may be late to say so."""
        for watcher in list(self._watchers.values()):
            watcher.look()

    def _number(self, call: Call) -> int:
        with self._lock:
            if call not in self._numbers:
                self._numbers[call] = self._count
                self._count += 1
            return self._numbers[call]

    def _watch(self, lines: dict[Timeline, int]) -> None:
        with self._lock:
            for line, value in lines.items():
                if line not in self._watchers:
                    self._watchers[line] = Watcher(line, value)
