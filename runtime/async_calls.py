"""Calls that were queued, in the order of their queueing, a few at once."""

import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

from lemurc.runtime.attempt import Attempt
from lemurc.runtime.spare_threads import on_thread

CLOSING_SECONDS = 30.0
"""How long `close` waits for one of the calls to end."""

Work = Callable[[Attempt], Any]
_all: "weakref.WeakSet[AsyncCalls]" = weakref.WeakSet()


class AsyncCalls:
    """At most `most` calls run at once, but for those that were cancelled while they ran."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._queue: deque[tuple[Attempt, Work]] = deque()
        self._open: set[Future[Any]] = set()
        self._current: set[Attempt] = set()
        self._lock = threading.Lock()
        _all.add(self)

    def submit(self, work: Work) -> Attempt:
        """The result that `work` will have."""
        attempt = Attempt()
        with self._lock:
            self._open.add(attempt)
            self._queue.append((attempt, work))
        attempt.add_done_callback(self._ended)
        self._begin_more()
        return attempt

    def close(self) -> bool:
        """Wait for as long as calls end, and cancel those that are left then; whether there were
        none."""
        while waiting := set(self._open):
            ended, _ = wait(waiting, CLOSING_SECONDS, FIRST_COMPLETED)
            if not ended:
                for attempt in waiting:
                    attempt.cancel()
                return False
        return True

    def _ended(self, attempt: "Future[Any]") -> None:
        """Its place is free, though the thread of one that was cancelled may be at it still."""
        with self._lock:
            self._open.discard(attempt)
            self._current -= {attempt}
        self._begin_more()

    def _begin_more(self) -> None:
        with self._lock:
            while self._queue and self._queue[0][0].done():
                self._queue.popleft()  # cancelled
            if not self._queue or len(self._current) >= self._most:
                return
            attempt, work = self._queue.popleft()
            self._current.add(attempt)
        on_thread(lambda: attempt.fulfil(work))


@atexit.register
def _finish() -> None:
    for calls in list(_all):
        calls.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_all.clear)
