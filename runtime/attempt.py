"""A call that may be given up: past its time limit, cancelled, or at ^C.

Work that a device has cannot be taken back, and a device that hangs keeps whoever waits for it.
So such a call runs on a thread that nobody need wait for. Given up, the thread
issues nothing more, waits for what devices still do, and lets the call take no effect: neither
state nor arguments change.
"""

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from typing import Any, TypeVar

from lemurc.errors import LemurcError
from lemurc.runtime.call import Call, Issue, Operation

T = TypeVar("T")


class GivenUp(Exception):
    """Nobody waits for the call any more; never seen by a user."""


class Attempt(Future[Any]):
    """The result of a call, which can be cancelled for as long as it has had no effect."""

    def __init__(self) -> None:
        super().__init__()
        self._deciding = threading.RLock()
        self.call: Call | None = None
        self.operation: Operation | None = None
        """What is being issued."""

    def cancel(self) -> bool:
        with self._deciding:
            if self.cancelled():
                return True
            # pending means to a Future that whoever waits must still be told
            return super().cancel() and not self.set_running_or_notify_cancel()

    def take_effect(self) -> None:
        """From here on the call cannot be cancelled; raises GivenUp where it was."""
        with self._deciding:
            if self.cancelled():
                raise GivenUp
            if not self.running():
                self.set_running_or_notify_cancel()

    def fulfil(self, work: "Callable[[Attempt], Any]") -> None:
        """Become what `work` returns or raises, unless cancelled."""
        with contextlib.suppress(GivenUp, CancelledError):
            if self.cancelled():
                return
            try:
                result = work(self)
            except (GivenUp, CancelledError):
                raise
            except BaseException as error:
                self.take_effect()
                self.set_exception(error)
            else:
                self.take_effect()
                self.set_result(result)

    def issuing(self, issue: Issue) -> Issue:
        """`issue`, until the call is given up."""

        def unless_given_up(operation: Operation, call: Call) -> None:
            if self.cancelled():
                raise GivenUp
            self.operation = operation
            issue(operation, call)

        return unless_given_up

    def settle(self) -> None:
        """Block until devices are done with what was issued."""
        if self.call is not None:
            with contextlib.suppress(LemurcError):
                self.call.wait()

    def outcome(self, task: "Future[T]", seconds: float | None) -> T:
        """What `task`, which makes this attempt, comes to within `seconds`.

        Otherwise the attempt is given up: TimeoutError, or CancelledError where another thread
        cancelled it.
        """
        try:
            wait((task, self), seconds, FIRST_COMPLETED)
            if self.cancelled():
                raise CancelledError
            if not task.done() and self.cancel():
                raise TimeoutError
            return task.result()
        except KeyboardInterrupt:
            self.cancel()
            raise
        finally:
            del task  # its error refers to this frame
