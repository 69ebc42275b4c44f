"""One call of a program in several, each of a part of its batch.

The parts follow each other like the requests of a stream: while one device works on a part, the
device before it works on the next, and few parts are in memory at once.
"""

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemurc.errors import LemurcError
from lemurc.manifest import MicroBatches
from lemurc.runtime import transport
from lemurc.runtime.attempt import Attempt
from lemurc.runtime.boundary import DeviceTensor
from lemurc.runtime.call import Call, Issue
from lemurc.runtime.devices import Turns
from lemurc.runtime.element_types import element_type
from lemurc.runtime.program import Program, issue_plainly
from lemurc.runtime.state import State


@dataclass(frozen=True)
class Batch:
    """The calls of all parts, in flight."""

    arrays: Sequence[Any]
    calls: tuple[Call, ...]

    def wait(self) -> None:
        for call in self.calls:
            call.wait()

    def end(self) -> None:
        """As `Call.end`."""
        for call in self.calls:
            call.end()


class MicroBatched:
    """`program` computes one part; at most `depth` parts of a call are in flight. Its programs
    have no state and change no arguments."""

    def __init__(self, program: Program, cut: MicroBatches, depth: int) -> None:
        self._program = program
        self._cut = cut
        self._depth = depth
        self._turns = Turns(program.devices)

    @property
    def laid_out(self) -> Program:
        """What calls consist of."""
        return self._program

    def run(
        self,
        arrays: Sequence[Any],
        state: State | None,
        on_device: bool,
        issue: Issue = issue_plainly,
        attempt: Attempt | None = None,
    ) -> tuple[list[Any], dict[int, Any]]:
        """As `Program.run`."""
        waiting: deque[Call] = deque()
        found: list[list[Any]] = []
        with self._turns:
            try:
                for part in self._parts(arrays):
                    if len(waiting) == self._depth:
                        found.append(self._finished(waiting, attempt))
                    waiting.append(self._program.begin(part, None, False, issue, attempt))
                while waiting:
                    found.append(self._finished(waiting, attempt))
            finally:
                _settle(waiting)
        return self._joined(found, on_device, attempt)

    def begin(
        self,
        arrays: Sequence[Any],
        state: State | None,
        on_device: bool,
        issue: Issue = issue_plainly,
        attempt: Attempt | None = None,
    ) -> Batch:
        """Queue the work of all parts."""
        calls: list[Call] = []
        try:
            for part in self._parts(arrays):
                calls.append(self._program.begin(part, None, False, issue, attempt))
        except BaseException:
            _settle(calls)
            raise
        return Batch(arrays, tuple(calls))

    def finish(
        self, call: Batch, on_device: bool, attempt: Attempt | None = None
    ) -> tuple[list[Any], dict[int, Any]]:
        """What `run` returns, of a call that was waited for."""
        found = [self._program.finish(part, False)[0] for part in call.calls]
        return self._joined(found, on_device, attempt)

    def _finished(self, waiting: deque[Call], attempt: Attempt | None) -> list[Any]:
        if attempt is not None:
            attempt.call = waiting[0]  # what is to blame if there is no end to it
        waiting[0].wait()
        return self._program.finish(waiting.popleft(), False)[0]

    def _parts(self, arrays: Sequence[Any]) -> Iterator[list[Any]]:
        """The arguments of each part; what has no batch goes to all."""
        cut = [
            array if axis < 0 else np.split(np.asarray(array), self._cut.count, axis)
            for array, axis in zip(arrays, self._cut.inputs, strict=True)
        ]
        for number in range(self._cut.count):
            yield [
                array if axis < 0 else array[number]
                for array, axis in zip(cut, self._cut.inputs, strict=True)
            ]

    def _joined(
        self, found: Sequence[Sequence[Any]], on_device: bool, attempt: Attempt | None
    ) -> tuple[list[Any], dict[int, Any]]:
        results = [
            np.concatenate(parts, axis)
            for parts, axis in zip(zip(*found, strict=True), self._cut.outputs, strict=True)
        ]
        if attempt is not None:
            attempt.take_effect()
        return [_in_host_memory(result) for result in results] if on_device else results, {}


def _settle(calls: Iterable[Call]) -> None:
    """Block until devices are done with what nobody wants."""
    for call in calls:
        with contextlib.suppress(LemurcError):
            call.wait()


def _in_host_memory(array: np.ndarray) -> DeviceTensor:
    device = transport.host_device()
    view, _ = transport.host_view(array, device, element_type(str(array.dtype)), True)
    return DeviceTensor(view, device, array.dtype)
