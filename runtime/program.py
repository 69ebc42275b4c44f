"""One entry point under one plan: a fixed list of operations, and what a call makes of it."""

import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lemurc.errors import DeviceError, InputError, InternalError
from lemurc.manifest import Function
from lemurc.runtime import transport
from lemurc.runtime.attempt import Attempt, GivenUp
from lemurc.runtime.boundary import DeviceTensor
from lemurc.runtime.call import Call, Issue, Operation, Workspace
from lemurc.runtime.devices import OpenDevice, Turns
from lemurc.runtime.iree_errors import FROM_IREE, translate, translated
from lemurc.runtime.operations import Duplicate, Feed, Fetch, Invoke, InvokeHost, Move, Recall
from lemurc.runtime.plugin_operations import FeedPlugin, InvokePlugin, MovePlugin, RecallPlugin
from lemurc.runtime.state import Resident, State

if TYPE_CHECKING:
    from lemurc.runtime.simulation import Simulation


def issue_plainly(operation: Operation, call: Call) -> None:
    call.issue(operation)


@dataclass(frozen=True)
class _Result:
    """Where a value that leaves the call comes from. Code knows bytes without their sign: as a
    result they are of this dtype, whatever the argument was that they come from."""

    reference: str
    dtype: np.dtype


@dataclass
class Program:
    """What `compile_program` made; `run` is one call."""

    function: Function
    devices: list[OpenDevice]
    operations: list[Operation] = field(default_factory=list)
    fetches: list[Fetch] = field(default_factory=list)
    """Of results and new values of inputs; a call that leaves those on devices skips them."""
    flags: Fetch | None = None
    homes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Reference to (cell, device) where its value is computed or first put."""
    owned: frozenset[str] = frozenset()
    """Values in memory that neither the caller nor another value or state variable has."""
    cells: int = 0
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    """The weights that are results themselves, by name."""
    simulation: "Simulation | None" = None
    _idle: list[Workspace] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._turns = Turns(self.devices)
        self._where = ", ".join(device.name for device in self.devices)
        self._kept = frozenset(self.function.state_updates.values())
        outliving = {*self.function.results, *self.function.input_updates.values()}
        outliving |= {*self._kept, self.function.check_flags}
        self.outliving = {self.homes[name][0] for name in outliving & self.homes.keys()}
        self._last_reads = _last_reads(self.operations, self.outliving)
        outputs = self.function.outputs
        self._results = [
            _Result(reference, np.dtype(spec.dtype))
            for reference, spec in zip(self.function.results, outputs, strict=True)
        ]
        self._updates: dict[int, _Result] = {}
        for index, reference in self.function.input_updates.items():
            spec = self.function.inputs[int(index)]
            self._updates[int(index)] = _Result(reference, np.dtype(spec.dtype))
        self._stateful = bool(self.function.state_updates) or any(
            reference.startswith("state:") for reference in self.homes
        )

    def run(
        self,
        arrays: Sequence[Any],
        state: State | None,
        on_device: bool,
        issue: Issue = issue_plainly,
        attempt: Attempt | None = None,
    ) -> tuple[list[Any], dict[int, Any]]:
        """Flat outputs for checked flat inputs, and new values of inputs by position.

        State is replaced when all went well. `issue` issues each operation: who measures
        does more than that. Raises GivenUp when the `attempt` was.
        """
        with self._turns:
            call = self.begin(arrays, state, on_device, issue, attempt)
            call.wait()
        return self.finish(call, on_device, attempt)

    def begin(
        self,
        arrays: Sequence[Any],
        state: State | None,
        on_device: bool,
        issue: Issue = issue_plainly,
        attempt: Attempt | None = None,
    ) -> Call:
        """Queue the work of one call; GivenUp, once devices are idle, when the `attempt` was."""
        with self._lock:
            work = self._idle.pop() if self._idle else None
        if work is None:
            with translated("create a timeline", self._where):
                work = Workspace(self.devices)
        call = Call(self.cells, arrays, state, work, on_device or bool(self.function.state_updates))
        if self.simulation is not None:
            from lemurc.runtime.simulated_call import SimulatedCall

            call.issuer = SimulatedCall(self.simulation, self, on_device)
        if attempt is None:
            self._issue(call, on_device, issue)
            return call
        attempt.call = call
        try:
            self._issue(call, on_device, attempt.issuing(issue))
        except GivenUp:
            attempt.settle()
            raise
        attempt.operation = None
        return call

    def finish(
        self, call: Call, on_device: bool, attempt: Attempt | None = None
    ) -> tuple[list[Any], dict[int, Any]]:
        """What `run` returns, of a call that was waited for."""
        if self.function.checks:
            self._raise_failed_checks(call)
        guarded = list(call.borrowed)
        results = [self._value(call, result, on_device, guarded) for result in self._results]
        updates = {
            index: self._value(call, update, isinstance(call.arrays[index], DeviceTensor), guarded)
            for index, update in self._updates.items()
        }
        if attempt is not None:
            attempt.take_effect()
        self._commit(call, on_device)
        with self._lock:
            self._idle.append(call.work)
        return results, updates

    def leaving(self, on_device: bool) -> Iterator[int]:
        """The cells that the host reads when a call is done; `on_device`: of its checks."""
        read = [self.function.check_flags] if self.function.check_flags else []
        if not on_device:
            read += [result.reference for result in (*self._results, *self._updates.values())]
        yield from (self.homes[reference][0] for reference in read if reference in self.homes)

    def issue_and_wait(self, operation: Operation, call: Call) -> None:
        """So that a failure is that of the operation's device: no work is behind it."""
        call.issue(operation)
        call.wait()

    def device_of(self, operation: Operation) -> str:
        """Where it is done; of a transfer, the end that is not in host memory."""
        if isinstance(operation, (Invoke, InvokePlugin)):
            return operation.executor.device.name
        if isinstance(operation, (Move, MovePlugin)):
            near = operation.origin.is_host
            return operation.target.name if near else operation.origin.name
        if isinstance(operation, (Duplicate, Fetch)):
            return self.devices[operation.device].name
        assert isinstance(operation, (Feed, FeedPlugin, Recall, RecallPlugin, InvokeHost))
        return operation.target.name

    @property
    def laid_out(self) -> "Program":
        """What calls consist of."""
        return self

    @property
    def where(self) -> str:
        """All its devices."""
        return self._where

    def _issue(self, call: Call, on_device: bool, issue: Issue) -> None:
        operation: Operation | None = None
        try:
            for operation, read in zip(self.operations, self._last_reads, strict=True):
                issue(operation, call)
                if call.issuer is None:  # others issue in an order of their own
                    for cell in read:
                        call.views[cell] = None
            if not on_device:
                for operation in self.fetches:
                    issue(operation, call)
            if self.flags is not None:
                operation = self.flags
                issue(operation, call)
        except DeviceError as error:
            call.blame(error)
            raise
        except FROM_IREE as error:
            where = self._where if operation is None else self.device_of(operation)
            meaning = translate(error, "run", where)
            if isinstance(meaning, DeviceError):
                call.blame(meaning)
            try:
                raise meaning from error
            finally:
                del meaning  # it refers to this frame

    def _value(
        self, call: Call, result: _Result, on_device: bool, guarded: list[np.ndarray]
    ) -> Any:
        """`guarded` is memory that no result may lie in: that of the caller and of others."""
        kind, _, name = result.reference.partition(":")
        if kind == "input":
            value = call.arrays[int(name)]
            if isinstance(value, DeviceTensor):
                return DeviceTensor(value.view, value.device, result.dtype)
            return np.array(value).view(result.dtype)
        if kind == "param":
            return self.weights[name].copy().view(result.dtype)
        if kind == "state" and result.reference not in self.homes:
            assert call.state is not None
            return call.state.residents[name].array().copy().view(result.dtype)
        cell, number = self.homes[result.reference]
        device, view = self.devices[number], call.views[cell]
        if on_device:
            return DeviceTensor(view, device, result.dtype)
        array = self._read(call, cell, view, device, result.dtype)
        shared = result.reference in self._kept or kind == "state" or self._stateful
        if device.is_host and (
            shared or (guarded and any(np.may_share_memory(array, g) for g in guarded))
        ):
            array = array.copy()
        guarded.append(array)
        return array

    def _raise_failed_checks(self, call: Call) -> None:
        cell, number = self.homes[self.function.check_flags]
        device = self.devices[number]
        failed = self._read(call, cell, call.views[cell], device, np.dtype(bool))
        if failed.any():
            messages = [self.function.checks[index] for index in np.flatnonzero(failed)]
            raise InputError(
                "; ".join(dict.fromkeys(messages)),
                code="check-failed",
                hint="the model itself refuses these arguments too; "
                "the state of the session is as before the call",
            )

    def _read(
        self,
        call: Call,
        cell: int,
        view: Any,
        device: OpenDevice,
        dtype: np.dtype,
    ) -> np.ndarray:
        if device.is_host:
            return transport.mapped(view, dtype)
        if device.plugin is not None:
            return transport.fetch_now(view, device, dtype)
        shape = tuple(view.shape)
        staging = call.staged[cell]
        if staging is None:
            return np.empty(shape, dtype)
        size = math.prod(shape) * dtype.itemsize
        return staging.bytes[:size].copy().view(dtype).reshape(shape)

    def _commit(self, call: Call, on_device: bool) -> None:
        if call.state is None or not self.function.state_updates:
            return
        updated = dict(call.state.residents)
        for name, reference in self.function.state_updates.items():
            kind, _, other = reference.partition(":")
            if reference in self.homes:
                cell, number = self.homes[reference]
                resident = Resident(call.state.residents[name].dtype)
                device = self.devices[number]
                resident.views[device.name] = (device, call.views[cell])
                resident.shared = on_device or reference not in self.owned
                updated[name] = resident
            elif kind == "state":
                updated[name] = call.state.residents[other]
                updated[name].shared = True
            else:
                raise InternalError(f"state {name!r} is updated from {reference!r}")
        call.state.residents = updated


def _last_reads(operations: Sequence[Operation], outliving: set[int]) -> list[list[int]]:
    """For each operation, the cells whose memory nothing needs after it."""
    last = {cell: number for number, op in enumerate(operations) for cell in op.reads}
    read: list[list[int]] = [[] for _ in operations]
    for cell, number in last.items():
        if cell not in outliving:
            read[number].append(cell)
    return read
