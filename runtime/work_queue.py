"""Work on threads of its own, after other work.

A job begins once the jobs it comes after are done and its worker is free; of several, the one
that has been ready for longest, so that no call keeps a device from the calls behind it. A job
after one that failed fails the same way.
"""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

_lock = threading.Lock()


class Worker:
    """One thread, which ends with the interpreter or when nothing refers to the worker."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._thread = ThreadPoolExecutor(1, f"lemurc {name}")

    def begin(self, job: "Job") -> None:
        """Queue a job that waits for nothing any more."""
        self._thread.submit(job.run)


class Job:
    """`work` on `worker`, after other jobs; it runs from `begin` to `end`, by `perf_counter`."""

    def __init__(self, worker: Worker, work: Callable[[], None], after: Iterable["Job"]) -> None:
        self._worker = worker
        self._work: Callable[[], None] | None = work
        self._error: BaseException | None = None
        self.begin = self.end = 0.0
        self._done = threading.Event()
        self._followers: list[Job] = []
        with _lock:
            before = [job for job in dict.fromkeys(after) if not job._passed_on(self)]
            self._open = len(before) + 1
        self._arrived()

    @property
    def done(self) -> bool:
        return self._done.is_set()

    def wait(self) -> None:
        """Block until it is done, or raise why it could not be. Any thread may wait."""
        self._done.wait()
        if self._error is not None:
            raise self._error

    def run(self) -> None:
        work, self._work = self._work, None
        self.begin = time.perf_counter()
        try:
            if self._error is None and work is not None:
                work()
        except BaseException as error:
            self._error = error
        self.end = time.perf_counter()
        with _lock:
            self._done.set()
            followers, self._followers = self._followers, []
            for follower in followers:
                follower._error = follower._error or self._error
        for follower in followers:
            follower._arrived()

    def _passed_on(self, follower: "Job") -> bool:
        """Whether it is done, so that `follower` need not wait; called with the lock held."""
        if self._done.is_set():
            follower._error = follower._error or self._error
            return True
        self._followers.append(follower)
        return False

    def _arrived(self) -> None:
        with _lock:
            self._open -= 1
            ready = self._open == 0
        if ready:
            self._worker.begin(self)
