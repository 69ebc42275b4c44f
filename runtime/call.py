"""One call in progress: what it has computed, and what it still waits for."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lemurc.errors import DeviceError, LemurcError
from lemurc.runtime import transport
from lemurc.runtime.devices import OpenDevice
from lemurc.runtime.iree_errors import FAILURES
from lemurc.runtime.state import Resident, State
from lemurc.runtime.timeline import Point, Timeline


class Workspace:
    """Timelines and transfer buffers; used by one call at a time, kept between calls."""

    def __init__(self, devices: Sequence[OpenDevice]) -> None:
        ours = [(number, d) for number, d in enumerate(devices) if d.plugin is None]
        self.compute = {number: Timeline(device) for number, device in ours}
        self.copies = {number: Timeline(device) for number, device in ours}
        self.lanes: dict[int, transport.Lane] = {}
        self._carrier: Timeline | None = None

    def lane(self, operation: object) -> transport.Lane:
        key = id(operation)
        if key not in self.lanes:
            self.lanes[key] = transport.Lane()
        return self.lanes[key]

    def carrier(self) -> Timeline:
        """Copies in host memory between the staging buffers of two far devices."""
        if self._carrier is None:
            self._carrier = Timeline(transport.host_device())
        return self._carrier

    def timelines(self) -> list[Timeline]:
        carrier = [self._carrier] if self._carrier else []
        return [*self.compute.values(), *self.copies.values(), *carrier]


class Call:
    """What one call has computed so far; `escaping` values outlive it."""

    def __init__(
        self,
        cells: int,
        arrays: Sequence[Any],
        state: State | None,
        work: Workspace,
        escaping: bool,
    ) -> None:
        self.arrays = arrays
        self.state = state
        self.work = work
        self.escaping = escaping
        self.views: list[Any] = [None] * cells
        self.ready: list[Point | None] = [None] * cells
        self.staged: dict[int, transport.Staging | None] = {}
        self.borrowed: list[np.ndarray] = []
        """Memory that is not the call's own: a result that lies in it is copied."""
        self.donated: list[Resident] = []
        """State whose memory the next stage may overwrite."""
        self.issuer: Issuer | None = None
        """Who issues operations in another way than by calling them."""
        self.pending: dict[int, Pending] = {}
        """Work that is on no timeline, by the cell that waits for it."""
        self._started = {line: line.value for line in work.timelines()}

    def issue(self, operation: "Operation") -> None:
        """Queue the work of one operation."""
        if self.issuer is None:
            operation.issue(self)
        else:
            self.issuer.issue(operation, self)

    def wait(self) -> None:
        """Block until all that was issued so far is done; raises what a device reported."""
        for pending in list(self.pending.values()):
            pending.wait()
        try:
            for line in self.work.timelines():
                if line.value > self.begun(line):
                    line.wait()
        except DeviceError as error:
            self.blame(error)
            raise

    def end(self) -> None:
        """Block until all of it is done, or has failed: then it keeps no memory."""
        with contextlib.suppress(LemurcError):
            self.wait()
            return
        for pending in list(self.pending.values()):
            with contextlib.suppress(LemurcError):
                pending.wait()
        self.views = [None] * len(self.views)

    def blame(self, error: DeviceError) -> None:
        """Name all devices whose work failed: IREE hands a failure on to all work behind it."""
        if error.code not in FAILURES:
            return
        failed = [line.device.name for line in self.work.timelines() if line.failed]
        error.where = ", ".join(dict.fromkeys([*failed, error.where]))

    def give_away_donated(self) -> None:
        with contextlib.suppress(IndexError):  # stages of simulated devices begin on threads
            while True:
                self.donated.pop().give_away()

    def begun(self, line: Timeline) -> int:
        return self._started.setdefault(line, line.value)


Issue = Callable[["Operation", Call], None]


class Operation(Protocol):
    @property
    def reads(self) -> tuple[int, ...]:
        """The cells whose values it needs."""

    @property
    def makes(self) -> tuple[int, ...]:
        """The cells that it fills."""

    def issue(self, call: Call) -> None: ...


class Pending(Protocol):
    @property
    def done(self) -> bool:
        """Whether it is known to be done, or to have failed."""

    def wait(self) -> None:
        """Block until the work is done; raises why it could not be."""


class Timed(Protocol):
    """Work that knows when it ran, by `time.perf_counter`, once it is done."""

    begin: float
    end: float


class Issuer(Protocol):
    def issue(self, operation: Operation, call: Call) -> None: ...

    def queued(self) -> "list[Queued]":
        """The work queued since this was asked last."""


@dataclass
class Queued:
    """Work that is on no timeline: `kind` and `track` are those of recorded_work.Work, `cell` is
    what it makes or moves, `bytes` how much it moved, when it has."""

    kind: str
    track: str
    cell: int
    bytes: int | None = None
    ran: Timed | None = None
