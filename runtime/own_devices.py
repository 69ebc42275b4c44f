"""CPU devices that share nothing with others, lent to simulations and used again.

IREE's devices live until the process ends (see devices.py), and each keeps three open files. So
one that nobody simulates with any more waits here for the next simulation. The most bytes that its
allocator ever counted cannot be reset: another user begins at that many, by a buffer that nobody
writes to, and for which the operating system gives no memory.
"""

import contextlib
import os
import weakref
from collections import deque
from typing import Any

from iree.runtime import BufferUsage, MemoryType

from lemurc.runtime.devices import own_device

_LEAST, _MOST = 1 << 26, 1 << 32
"""Bytes of such a buffer: less would be memory used before, which is cleared and so takes place,
and a device that has counted more is left alone."""

_MEMORY = int(MemoryType.DEVICE_LOCAL) | int(MemoryType.HOST_VISIBLE)
_free: deque[Any] = deque()
"""Appended to by finalizers, which run anywhere: so it has no lock."""


class OwnDevice:
    """`hal` is IREE's device, until nothing refers to this any more."""

    def __init__(self, name: str) -> None:
        self._ballast: Any
        self.hal, self._ballast = _begun_again() or (own_device(name), None)
        counted = self._statistics()
        self._before = counted["device_bytes_allocated"] - counted["device_bytes_freed"]
        weakref.finalize(self, _free.append, self.hal).atexit = False

    def live(self) -> int:
        """Bytes of buffers."""
        counted = self._statistics()
        return counted["device_bytes_allocated"] - counted["device_bytes_freed"] - self._before

    def peak(self) -> int:
        """The most that was live at once."""
        return self._statistics()["device_bytes_peak"] - self._before

    def _statistics(self) -> dict[str, int]:
        return dict(self.hal.allocator.statistics)


def _begun_again() -> tuple[Any, Any] | None:
    """A device on which nothing lives, and what fills it to its peak; None where there is none."""
    for _ in range(len(_free)):
        try:
            hal = _free.popleft()
        except IndexError:  # another thread has it
            return None
        counted = hal.allocator.statistics
        if counted["device_bytes_allocated"] == counted["device_bytes_freed"]:
            size = max(counted["device_bytes_peak"], _LEAST)
            if size > _MOST:
                continue
            with contextlib.suppress(RuntimeError):  # no reason to fail
                return hal, hal.allocator.allocate_buffer(_MEMORY, int(BufferUsage.DEFAULT), size)
        _free.append(hal)
    return None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free.clear)
