"""Threads that nobody need wait for: they do not keep the process, and serve again and again."""

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import Any, TypeVar

from lemurc.runtime.timeline import leave_all_waits

T = TypeVar("T")

_MOST_IDLE = 4
_EXIT_SECONDS = 2.0
_idle: "deque[_Thread]" = deque()
_under_way: "set[Future[Any]]" = set()


def on_thread(work: Callable[[], T]) -> "Future[T]":
    """Begin `work` on a spare thread; its result, which cannot be cancelled."""
    task: Future[T] = Future()
    task.set_running_or_notify_cancel()
    _under_way.add(task)
    try:
        thread = _idle.pop()
    except IndexError:
        thread = _Thread()
    thread.jobs.put((work, task))
    return task


class _Thread:
    def __init__(self) -> None:
        self.jobs: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        threading.Thread(target=self._serve, name="lemurc call", daemon=True).start()

    def _serve(self) -> None:
        serves = True
        while serves:
            serves = self._do(*self.jobs.get())

    def _do(self, work: Callable[[], T], task: "Future[T]") -> bool:
        """Whether it is to serve again."""
        result: Any = None
        failure: BaseException | None = None
        try:
            result = work()
        except BaseException as error:
            failure = error
        _under_way.discard(task)
        again = len(_idle) < _MOST_IDLE
        if again:  # before anyone who waited for the result looks for a thread
            _idle.append(self)
        if failure is None:
            task.set_result(result)
        else:
            task.set_exception(failure)
        del work, task, failure  # an exception refers to this frame
        return again


@atexit.register
def _end() -> None:
    """A thread that waits in IREE when the interpreter ends would abort the process."""
    leave_all_waits()
    wait(list(_under_way), _EXIT_SECONDS)


def _forget() -> None:
    _idle.clear()
    _under_way.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
