"""One call of a program in several, each of a part of its batch.

The parts follow each other like the requests of a stream: while one device works on a part, the
device before it works on the next, and few parts are in memory at once.
"""

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemurc.errors import LemurcError
from lemurc.manifest import MicroBatches
from lemurc.runtime import transport
from lemurc.runtime.boundary import DeviceTensor
from lemurc.runtime.call import Call
from lemurc.runtime.devices import Turns
from lemurc.runtime.element_types import element_type
from lemurc.runtime.program import Issue, Program, issue_plainly
from lemurc.runtime.state import State


@dataclass(frozen=True)
class Batch:
    """The calls of all parts, in flight."""

    calls: tuple[Call, ...]

    def wait(self) -> None:
        for call in self.calls:
            call.wait()


class MicroBatched:
    """`program` computes one part; at most `depth` parts of a call are in flight. Its programs
    have no state and change no arguments."""

    def __init__(self, program: Program, cut: MicroBatches, depth: int) -> None:
        self.program = program
        self._cut = cut
        self._depth = depth
        self._turns = Turns(program.devices)

    def run(
        self,
        arrays: Sequence[Any],
        state: State | None,
        on_device: bool,
        issue: Issue = issue_plainly,
    ) -> tuple[list[Any], dict[int, Any]]:
        """As `Program.run`."""
        waiting: deque[Call] = deque()
        found: list[list[Any]] = []
        with self._turns:
            try:
                for part in self._parts(arrays):
                    if len(waiting) == self._depth:
                        found.append(self._finished(waiting.popleft()))
                    waiting.append(self.program.begin(part, None, False, issue))
                while waiting:
                    found.append(self._finished(waiting.popleft()))
            finally:
                for call in waiting:
                    with contextlib.suppress(LemurcError):
                        call.wait()
        return self._joined(found, on_device), {}

    def begin(self, arrays: Sequence[Any], issue: Issue = issue_plainly) -> Batch:
        """Queue the work of all parts."""
        begin = self.program.begin
        return Batch(tuple(begin(part, None, False, issue) for part in self._parts(arrays)))

    def finish(self, batch: Batch, on_device: bool) -> list[Any]:
        """The results of a batch that was waited for."""
        found = [self.program.finish(call, False)[0] for call in batch.calls]
        return self._joined(found, on_device)

    def _finished(self, call: Call) -> list[Any]:
        call.wait()
        return self.program.finish(call, False)[0]

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

    def _joined(self, found: Sequence[Sequence[Any]], on_device: bool) -> list[Any]:
        results = [
            np.concatenate(parts, axis)
            for parts, axis in zip(zip(*found, strict=True), self._cut.outputs, strict=True)
        ]
        return [_in_host_memory(result) for result in results] if on_device else results


def _in_host_memory(array: np.ndarray) -> DeviceTensor:
    device = transport.host_device()
    view, _ = transport.host_view(array, device, element_type(str(array.dtype)), True)
    return DeviceTensor(view, device, array.dtype)
