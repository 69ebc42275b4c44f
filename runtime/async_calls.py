"""Calls that were queued: on a few threads, in the order of their queueing."""

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

from lemurc.runtime.attempt import Attempt


class AsyncCalls:
    """`workers` calls run at once."""

    def __init__(self, workers: int) -> None:
        self._pool = ThreadPoolExecutor(workers, "lemurc")
        self._open: set[Attempt] = set()

    def submit(self, work: Callable[[Attempt], Any]) -> Attempt:
        """The result that `work` will have; cancelled while it runs, its worker is free."""
        attempt = Attempt()
        self._open.add(attempt)
        attempt.add_done_callback(self._open.discard)
        self._pool.submit(attempt.fulfil, work)
        return attempt

    def close(self, patience: float) -> bool:
        """Wait for as long as a call ends every `patience` seconds, and cancel those that are
        left then; whether there were none."""
        self._pool.shutdown(wait=False)
        while waiting := set(self._open):
            ended, _ = wait(waiting, patience, FIRST_COMPLETED)
            if not ended:
                for attempt in waiting:
                    attempt.cancel()
                return False
        return True
