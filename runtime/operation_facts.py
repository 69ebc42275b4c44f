"""What can be said of an operation without running it: for those who record calls."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from iree.runtime import HalBufferView

from lemurc.runtime.call import Call, Operation
from lemurc.runtime.operations import Duplicate, Feed, Invoke, InvokeHost, Recall
from lemurc.runtime.plugin_operations import FeedPlugin, InvokePlugin, RecallPlugin
from lemurc.runtime.program import Program

_STAGES = (Invoke, InvokeHost, InvokePlugin)


def kind_of(operation: Operation) -> str:
    if isinstance(operation, _STAGES):
        return "stage"
    return "copy" if isinstance(operation, Duplicate) else "transfer"


def size_of(operation: Operation, call: Call) -> int | None:
    """Bytes moved; None for what computes."""
    if isinstance(operation, _STAGES):
        return None
    return sum(_bytes(call.views[cell]) for cell in operation.makes or operation.reads)


def _bytes(view: Any) -> int:
    """Of a value on a device of IREE's or of a plug-in."""
    if isinstance(view, HalBufferView):
        return int(view.get_buffer().byte_length())
    return int(math.prod(view.shape)) * int(np.dtype(view.dtype).itemsize)


class Names:
    """What operations of programs run or move, in words."""

    def __init__(self, programs: Iterable[Program]) -> None:
        self._names: dict[int, str] = {}
        self._values: dict[int, dict[int, str]] = {}
        for program in programs:
            values = {cell: _value(reference) for reference, (cell, _) in program.homes.items()}
            flags = [] if program.flags is None else [program.flags]
            for operation in (*program.operations, *program.fetches, *flags):
                self._names[id(operation)] = _name(operation, program, values)
                self._values[id(operation)] = values

    def of(self, operation: Operation) -> str:
        """A stage, or the name of a value."""
        return self._names.get(id(operation), "")

    def value(self, operation: Operation, cell: int) -> str:
        """The value in a cell of the program that `operation` is of."""
        return self._values.get(id(operation), {}).get(cell, "")


def _name(operation: Operation, program: Program, values: dict[int, str]) -> str:
    if isinstance(operation, _STAGES):
        return operation.executor.name
    if isinstance(operation, (Feed, FeedPlugin)):
        return program.function.inputs[operation.source].name
    if isinstance(operation, (Recall, RecallPlugin)):
        return operation.name
    return values.get(operation.reads[0], "")


def _value(reference: str) -> str:
    return reference.removeprefix("input:").removeprefix("state:")
