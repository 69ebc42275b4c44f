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
from dataclasses import dataclass
from types import TracebackType

from lemurc.errors import LemurcError
from lemurc.runtime.devices import OpenDevice
from lemurc.runtime.iree_errors import translated
from lemurc.runtime.operations import (
    Call,
    Duplicate,
    Feed,
    Fetch,
    Invoke,
    InvokeHost,
    Move,
    Operation,
    Recall,
)
from lemurc.runtime.program import Program
from lemurc.runtime.timeline import Point, Timeline

HOST_TRACK = "host"
_SLICE_NS = 20_000_000
_SWITCH_SECONDS = 5e-5
"""How long a thread that computes in Python may keep one waiting that has a time to take."""
_TRIALS = 64


@dataclass(frozen=True)
class Work:
    """Something that took time, on a device or (`track` "host") on the thread of the caller.

    `kind` is "stage", "transfer" between memories, "copy" within one, or "queue", what the host
    does to begin work. `name` is a stage or a value. `needs` are the positions of the work whose
    results it reads. `begin` and `end` are of `time.perf_counter`, in seconds.
    """

    kind: str
    name: str
    track: str
    call: int
    begin: float
    end: float
    bytes: int | None = None
    needs: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Issued:
    """An operation as it was issued: `waits` are the points of what it reads, `queued` those of
    its own work; `ready` are points of the cells it makes."""

    operation: Operation
    call: int
    begin: float
    end: float
    waits: tuple[Point | None, ...]
    queued: tuple[Point, ...]
    ready: tuple[Point | None, ...]
    bytes: int | None


class Recorder:
    """`issue` is handed to calls; `work` is there when the block of `with` is left."""

    def __init__(self, programs: Iterable[Program]) -> None:
        self.work: tuple[Work, ...] = ()
        self._names = {id(op): name for program in programs for op, name in _named(program)}
        self._numbers: weakref.WeakKeyDictionary[Call, int] = weakref.WeakKeyDictionary()
        self._issued: list[_Issued] = []
        self._watchers: dict[Timeline, _Watcher] = {}
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
        sys.setswitchinterval(self._interval)
        self.work = tuple(_assembled(self._issued, self._watchers, self._names))

    def issue(self, operation: Operation, call: Call) -> None:
        """Issue an operation and note what work it queued."""
        number = self._number(call)
        before = {line: line.value for line in call.work.timelines()}
        self._watch(before)
        waits = tuple(call.ready[cell] for cell in _read(operation))
        begin = time.perf_counter()
        operation.issue(call)
        end = time.perf_counter()
        after = {line: before.get(line, 0) for line in call.work.timelines()}
        self._watch(after)
        queued = tuple(
            (line, value)
            for line, known in after.items()
            for value in range(known + 1, line.value + 1)
        )
        ready = tuple(call.ready[cell] for cell in _made(operation))
        size = _size(operation, call)
        with self._lock:
            self._issued.append(_Issued(operation, number, begin, end, waits, queued, ready, size))
        self.look()

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
                    self._watchers[line] = _Watcher(line, value)


class _Watcher:
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


def lateness(device: OpenDevice) -> tuple[float, float]:
    """Median and 90th percentile of how late a time is taken, in seconds, on an idle device."""
    line = Timeline(device)
    watcher = _Watcher(line, 0)
    signalled = {}
    for value in range(1, _TRIALS + 1):
        time.sleep(2e-4)
        line.value = value
        signalled[value] = time.perf_counter()
        line.semaphore.signal(value)
    watcher.stop()
    late = sorted((watcher.end(value) or begin) - begin for value, begin in signalled.items())
    return late[_TRIALS // 2], late[_TRIALS * 9 // 10]


def _assembled(
    issued: list[_Issued], watchers: dict[Timeline, _Watcher], names: dict[int, str]
) -> list[Work]:
    """The work of all calls, in the order in which it was issued."""
    found: list[_Piece] = []
    at: dict[Point, int] = {}
    made: dict[tuple[int, int], int] = {}
    for item in issued:
        needs = [made[item.call, c] for c in _read(item.operation) if (item.call, c) in made]
        waits = [at[point] for point in item.waits if point in at]
        ends = {point: watchers[point[0]].end(point[1]) for point in item.queued}
        if any(end is None for end in ends.values()):
            continue  # the device failed, so it never ended
        common = (names.get(id(item.operation), ""), item.call)
        kind = _kind(item.operation)
        if ends:
            found.append(_Piece("queue", *common, HOST_TRACK, item.begin, item.end, None, [], []))
        elif isinstance(item.operation, (Feed, InvokeHost)):
            waits = waits if kind == "stage" else []
            found.append(
                _Piece(kind, *common, HOST_TRACK, item.begin, item.end, item.bytes, needs, waits)
            )
        else:  # the value is there already, under another name
            made.update({(item.call, cell): at for cell in _made(item.operation) for at in needs})
            continue
        for point in sorted(ends, key=lambda point: ends[point] or 0.0):
            line, value = point
            earlier = [at[line, value - 1]] if (line, value - 1) in at else []
            end = ends[point]
            assert end is not None
            at[point] = len(found)
            found.append(
                _Piece(
                    kind, *common, line.device.name, item.begin, end, item.bytes,
                    needs, waits + earlier,
                )
            )  # fmt: skip
            waits = [at[point]]
        for cell, point_or_none in zip(_made(item.operation), item.ready, strict=True):
            known = at.get(point_or_none) if point_or_none is not None else None
            made[item.call, cell] = len(found) - 1 if known is None else known
    return _bounded(found)


@dataclass
class _Piece:
    """`Work` whose times are not settled yet; it begins after `waits`."""

    kind: str
    name: str
    call: int
    track: str
    begin: float
    end: float
    bytes: int | None
    needs: list[int]
    waits: list[int]


def _bounded(pieces: list[_Piece]) -> list[Work]:
    """What others waited for ended before they did, and they began when it had ended."""
    for piece in reversed(pieces):
        for earlier in piece.waits:
            pieces[earlier].end = min(pieces[earlier].end, piece.end)
    found = []
    for piece in pieces:
        begin = max([piece.begin, *(pieces[earlier].end for earlier in piece.waits)])
        piece.end = max(piece.end, begin)
        needs = tuple(dict.fromkeys(piece.needs))
        found.append(
            Work(
                piece.kind,
                piece.name,
                piece.track,
                piece.call,
                begin,
                piece.end,
                piece.bytes,
                needs,
            )
        )
    return found


def _read(operation: Operation) -> tuple[int, ...]:
    """The cells that an operation reads."""
    if isinstance(operation, (Invoke, InvokeHost)):
        return operation.inputs
    if isinstance(operation, (Move, Duplicate)):
        return (operation.source,)
    return (operation.cell,) if isinstance(operation, Fetch) else ()


def _made(operation: Operation) -> tuple[int, ...]:
    """The cells that it fills."""
    if isinstance(operation, (Invoke, InvokeHost)):
        return operation.outputs
    if isinstance(operation, (Move, Duplicate, Feed, Recall)):
        return (operation.cell,)
    return ()


def _kind(operation: Operation) -> str:
    if isinstance(operation, (Invoke, InvokeHost)):
        return "stage"
    return "copy" if isinstance(operation, Duplicate) else "transfer"


def _size(operation: Operation, call: Call) -> int | None:
    """Bytes moved; None for what computes."""
    if isinstance(operation, (Invoke, InvokeHost)):
        return None
    cells = _made(operation) or _read(operation)
    return sum(int(call.views[cell].get_buffer().byte_length()) for cell in cells)


def _named(program: Program) -> Iterable[tuple[Operation, str]]:
    """Each operation with the stage it runs or the value it moves."""
    values = {cell: reference for reference, (cell, _) in program.homes.items()}
    operations: list[Operation] = [*program.operations, *program.fetches]
    if program.flags is not None:
        operations.append(program.flags)
    for operation in operations:
        if isinstance(operation, (Invoke, InvokeHost)):
            yield operation, operation.executor.name
        elif isinstance(operation, Feed):
            yield operation, program.function.inputs[operation.source].name
        elif isinstance(operation, Recall):
            yield operation, operation.name
        else:
            read = _read(operation)[0]
            yield operation, values.get(read, "").removeprefix("input:").removeprefix("state:")
