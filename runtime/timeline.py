"""Order on and between devices: a value only grows, and work waits for points of it.

Each device in a call has two timelines, one for stages and one for copies, so that a
transfer overlaps with the next stage. Work on one timeline runs in order; across
timelines only where data flows.
"""

import threading
from collections.abc import Iterable
from typing import Any

from iree.runtime import HalFence

from lemurc.runtime.devices import OpenDevice
from lemurc.runtime.iree_errors import FROM_IREE, translated

_POLL_NS = 200_000_000
_NOTHING = HalFence(1)
_leaving = threading.Event()


def leave_all_waits() -> None:
    """The process ends: threads that would not keep it wait for no device any longer."""
    _leaving.set()


class Timeline:
    def __init__(self, device: OpenDevice) -> None:
        self.device = device
        self.semaphore = device.hal.create_semaphore(0)
        self.value = 0

    def advance(self) -> Any:
        """The fence that the next piece of work signals."""
        self.value += 1
        return HalFence.create_at(self.semaphore, self.value)

    def after(self, points: "Iterable[Point | None]", started_at: int) -> Any:
        """The fence the next piece of work waits for: `points` and the work before it.

        `started_at` is the value when the call began; what came before is done.
        """
        latest: dict[Timeline, int] = {}
        if self.value > started_at:
            latest[self] = self.value
        for point in points:
            if point is not None and latest.get(point[0], 0) < point[1]:
                latest[point[0]] = point[1]
        if not latest:
            return _NOTHING
        if len(latest) == 1:
            [(timeline, value)] = latest.items()
            return HalFence.create_at(timeline.semaphore, value)
        fence = HalFence(len(latest))
        for timeline, value in latest.items():
            fence.insert(timeline.semaphore, value)
        return fence

    def wait(self) -> None:
        """Block until all work so far is done; raises what the device reported."""
        self.wait_for(self.value)

    def wait_for(self, value: int) -> None:
        """Block until the work that reaches `value` is done."""
        with translated("run", self.device.name):
            # In slices, so that ^C is noticed.
            while not self.semaphore.wait(value, timeout=_POLL_NS):
                if _leaving.is_set() and threading.current_thread().daemon:
                    raise SystemExit

    def reached(self, value: int) -> bool:
        """Whether the work that reaches `value` is done, or failed."""
        try:
            return bool(self.semaphore.query() >= value)
        except FROM_IREE:
            return True

    @property
    def failed(self) -> bool:
        """Whether some of its work failed, or came after work that did."""
        try:
            self.semaphore.query()
        except FROM_IREE:
            return True
        return False


Point = tuple[Timeline, int]
