"""One entry point under one plan, as a list of operations fixed at load.

    Feed    a host array            -> a cell on a device
    Recall  a state variable        -> a cell on a device
    Move    a cell on one device    -> a cell on another
    Invoke  cells on a device       -> cells on it
    Fetch   a cell                  -> staging memory, for a result on a far device

A cell is one value on one device. All operations of a call are queued without waiting;
fences order them, and the call waits once at the end.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from lemurc.errors import InternalError
from lemurc.manifest import Function, Manifest, Step, TensorSpec
from lemurc.runtime import transport
from lemurc.runtime.artifact import Artifact
from lemurc.runtime.boundary import DeviceTensor
from lemurc.runtime.devices import OpenDevice
from lemurc.runtime.executor import StageExecutor
from lemurc.runtime.iree_errors import translated
from lemurc.runtime.state import Resident, State
from lemurc.runtime.timeline import Point, Timeline


class Workspace:
    """Timelines and transfer buffers; used by one call at a time, kept between calls."""

    def __init__(self, devices: Sequence[OpenDevice]) -> None:
        self.compute = [Timeline(device) for device in devices]
        self.copies = [Timeline(device) for device in devices]
        self.lanes: dict[int, transport.Lane] = {}
        self._carrier: Timeline | None = None

    def lane(self, operation: object) -> transport.Lane:
        key = id(operation)
        if key not in self.lanes:
            self.lanes[key] = transport.Lane()
        return self.lanes[key]

    def carrier(self) -> Timeline:
        """Copies in host memory between the staging buffers of two far devices."""
        if self._carrier is None:
            self._carrier = Timeline(transport.host_device())
        return self._carrier

    def timelines(self) -> list[Timeline]:
        return [*self.compute, *self.copies, *([self._carrier] if self._carrier else [])]


class Call:
    """What one call has computed so far; `escaping` values outlive it."""

    def __init__(
        self,
        cells: int,
        arrays: Sequence[Any],
        state: State | None,
        work: Workspace,
        escaping: bool,
    ) -> None:
        self.arrays = arrays
        self.state = state
        self.work = work
        self.escaping = escaping
        self.views: list[Any] = [None] * cells
        self.ready: list[Point | None] = [None] * cells
        self.staged: dict[int, transport.Staging | None] = {}
        self.borrowed: list[np.ndarray] = []
        """Memory that is not the call's own: a result that lies in it is copied."""
        self.started = {line: line.value for line in work.timelines()}

    def begun(self, line: Timeline) -> int:
        return self.started.setdefault(line, line.value)


class Operation(Protocol):
    def issue(self, call: Call) -> None: ...


@dataclass(frozen=True, eq=False)
class Feed:
    source: int
    cell: int
    device: int
    target: OpenDevice
    element: int
    keep: bool
    """The value becomes state, so it must not be the caller's memory."""

    def issue(self, call: Call) -> None:
        array = call.arrays[self.source]
        if isinstance(array, DeviceTensor):
            if array.device.hal is self.target.hal:
                call.views[self.cell] = array.view
                return
            array = array.numpy()
        put(call, self, array, self.cell, self.device, self.target, self.element, self.keep)


@dataclass(frozen=True, eq=False)
class Recall:
    name: str
    cell: int
    device: int
    target: OpenDevice
    element: int

    def issue(self, call: Call) -> None:
        assert call.state is not None
        resident = call.state.residents[self.name]
        known = resident.views.get(self.target.name)
        if known is None:
            array = resident.array()
            put(call, self, array, self.cell, self.device, self.target, self.element, True)
            resident.views[self.target.name] = (self.target, call.views[self.cell])
            if call.ready[self.cell] is not None:
                call.work.copies[self.device].wait()
        else:
            call.views[self.cell] = known[1]


@dataclass(frozen=True, eq=False)
class Move:
    source: int
    source_device: int
    cell: int
    device: int
    origin: OpenDevice
    target: OpenDevice

    def issue(self, call: Call) -> None:
        import iree.runtime as rt

        view, ready, work = call.views[self.source], call.ready[self.source], call.work
        if self.origin.is_host and self.target.is_host:
            call.views[self.cell], call.ready[self.cell] = view, ready
            return
        lane = work.lane(self)
        size = view.get_buffer().byte_length()
        if not size:
            buffer = lane.target(self.target, 0, True)
            call.views[self.cell] = rt.HalBufferView(buffer, view.shape, view.element_type)
            return
        line_in, line_out = work.copies[self.source_device], work.copies[self.device]
        if self.target.is_host and not call.escaping:
            staging, done = transport.download(view, ready, lane, line_in, call.begun(line_in))
            assert staging is not None
            buffer = staging.on_host(self.target)
            call.borrowed.append(staging.bytes)
        else:
            buffer, done = self._relay(call, lane, view, ready, size, line_in, line_out)
        call.views[self.cell] = rt.HalBufferView(buffer, view.shape, view.element_type)
        call.ready[self.cell] = done

    def _relay(
        self,
        call: Call,
        lane: transport.Lane,
        view: Any,
        ready: Point | None,
        size: int,
        line_in: Timeline,
        line_out: Timeline,
    ) -> tuple[Any, Point | None]:
        """Into a buffer of the target's own, through its staging memory if it is far."""
        carrier = line_in if self.origin.is_host else call.work.carrier()
        source = view.get_buffer()
        if not self.origin.is_host:
            staging, ready = transport.download(view, ready, lane, line_in, call.begun(line_in))
            assert staging is not None
            source = staging.on_host(carrier.device)
        target = lane.target(self.target, size, call.escaping)
        if self.target.is_host:
            return target, transport.host_copy(source, target, ready, carrier, call.begun(carrier))
        landing = lane.staging(self.target, size)
        ready = transport.host_copy(
            source, landing.on_host(carrier.device), ready, carrier, call.begun(carrier)
        )
        wait = line_out.after((ready,), call.begun(line_out))
        self.target.hal.queue_copy(landing.buffer, target, wait, line_out.advance())
        return target, (line_out, line_out.value)


@dataclass(frozen=True, eq=False)
class Invoke:
    executor: StageExecutor
    device: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def issue(self, call: Call) -> None:
        line, views, ready = call.work.compute[self.device], call.views, call.ready
        wait = line.after([ready[cell] for cell in self.inputs], call.begun(line))
        results = self.executor.submit([views[cell] for cell in self.inputs], wait, line.advance())
        point = (line, line.value)
        for cell, view in zip(self.outputs, results, strict=True):
            views[cell] = view
            ready[cell] = point


@dataclass(frozen=True, eq=False)
class Fetch:
    cell: int
    device: int

    def issue(self, call: Call) -> None:
        line = call.work.copies[self.device]
        call.staged[self.cell], _ = transport.download(
            call.views[self.cell],
            call.ready[self.cell],
            call.work.lane(self),
            line,
            call.begun(line),
        )


def put(
    call: Call,
    operation: object,
    array: np.ndarray,
    cell: int,
    device: int,
    target: OpenDevice,
    element: int,
    keep: bool,
) -> None:
    """Bring a host array into a cell."""
    with translated("copy an input", target.name):
        if target.is_host:
            call.views[cell], borrowed = transport.host_view(array, target, element, keep)
            if borrowed:
                call.borrowed.append(array)
            return
        line = call.work.copies[device]
        call.views[cell], call.ready[cell] = transport.upload(
            array, element, call.work.lane(operation), line, call.begun(line), keep or call.escaping
        )


@dataclass
class Program:
    """What `compile_program` made; `run` is one call."""

    function: Function
    devices: list[OpenDevice]
    operations: list[Operation] = field(default_factory=list)
    fetches: list[Fetch] = field(default_factory=list)
    homes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Reference to (cell, device) where its value is computed or first put."""
    cells: int = 0
    artifact: Artifact | None = None
    _idle: list[Workspace] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._dtypes = [np.dtype(spec.dtype) for spec in self.function.outputs]
        self._stateful = bool(self.function.state_updates) or any(
            reference.startswith("state:") for reference in self.homes
        )

    def run(self, arrays: Sequence[Any], state: State | None, on_device: bool) -> list[Any]:
        """Flat outputs for checked flat inputs; state is replaced when all went well."""
        with self._lock:
            work = self._idle.pop() if self._idle else None
        if work is None:
            with translated("create a timeline", self.devices[0].name):
                work = Workspace(self.devices)
        call = Call(self.cells, arrays, state, work, on_device or bool(self.function.state_updates))
        with translated("run", ", ".join(device.name for device in self.devices)):
            for operation in self.operations:
                operation.issue(call)
            if not on_device:
                for fetch in self.fetches:
                    fetch.issue(call)
        for line in work.timelines():
            if line.value > call.begun(line):
                line.wait()
        results = self._results(call, on_device)
        self._commit(call)
        with self._lock:
            self._idle.append(work)
        return results

    def _results(self, call: Call, on_device: bool) -> list[Any]:
        results: list[Any] = []
        guarded = list(call.borrowed)
        kept = set(self.function.state_updates.values())
        for reference, spec, dtype in zip(
            self.function.results, self.function.outputs, self._dtypes, strict=True
        ):
            kind, _, name = reference.partition(":")
            if kind == "input":
                value = call.arrays[int(name)]
                results.append(value if isinstance(value, DeviceTensor) else np.array(value))
            elif kind == "param":
                assert self.artifact is not None
                results.append(self.artifact.weight(name).copy())
            elif kind == "state" and reference not in self.homes:
                assert call.state is not None
                results.append(call.state.residents[name].array().copy())
            else:
                cell, number = self.homes[reference]
                device, view = self.devices[number], call.views[cell]
                if on_device:
                    results.append(DeviceTensor(view, device, dtype))
                    continue
                array = self._read(call, cell, view, device, spec, dtype)
                shared = reference in kept or kind == "state" or self._stateful
                if device.is_host and (
                    shared or any(np.may_share_memory(array, other) for other in guarded)
                ):
                    array = array.copy()
                guarded.append(array)
                results.append(array)
        return results

    def _read(
        self,
        call: Call,
        cell: int,
        view: Any,
        device: OpenDevice,
        spec: TensorSpec,
        dtype: np.dtype,
    ) -> np.ndarray:
        shape = tuple(view.shape)
        if device.is_host:
            array: np.ndarray = view.map().asarray(shape, dtype)
            return array
        staging = call.staged[cell]
        if staging is None:
            return np.empty(shape, dtype)
        size = int(np.prod(shape)) * dtype.itemsize
        return staging.bytes[:size].copy().view(dtype).reshape(shape)

    def _commit(self, call: Call) -> None:
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
                updated[name] = resident
            elif kind == "state":
                updated[name] = call.state.residents[other]
            else:
                raise InternalError(f"state {name!r} is updated from {reference!r}")
        call.state.residents = updated


def compile_program(
    artifact: Artifact,
    function: Function,
    steps: Sequence[Step],
    devices: dict[str, OpenDevice],
    executors: dict[tuple[str, str], StageExecutor],
) -> Program:
    """Lay out the operations of `steps`; `devices` maps the plan's names to open ones."""
    return _Layout(artifact, function, steps, devices, executors).program()


class _Layout:
    def __init__(
        self,
        artifact: Artifact,
        function: Function,
        steps: Sequence[Step],
        devices: dict[str, OpenDevice],
        executors: dict[tuple[str, str], StageExecutor],
    ) -> None:
        self.artifact = artifact
        self.manifest: Manifest = artifact.manifest
        self.function = function
        self.steps = steps
        self.order = {name: number for number, name in enumerate(devices)}
        self.devices = list(devices.values())
        self.executors = executors
        self.operations: list[Operation] = []
        self.cells: dict[tuple[str, int], int] = {}
        self.homes: dict[str, tuple[int, int]] = {}

    def program(self) -> Program:
        for step in self.steps:
            stage, device = self.manifest.stages[step.stage], self.order[step.device]
            inputs = tuple(self._cell_on(reference, device) for reference in stage.inputs)
            outputs = tuple(self._new_cell(value, device) for value in stage.outputs)
            executor = self.executors[step.stage, step.device]
            self.operations.append(Invoke(executor, device, inputs, outputs))
        for reference in self.function.state_updates.values():
            if reference.startswith(("input:", "param:")) and reference not in self.homes:
                self._cell_on(reference, 0)
        fetches = []
        for reference in dict.fromkeys(self.function.results):
            if reference in self.homes and not reference.startswith(("input:", "param:")):
                cell, device = self.homes[reference]
                if not self.devices[device].is_host:
                    fetches.append(Fetch(cell, device))
        return Program(
            self.function, self.devices, self.operations, fetches, self.homes, len(self.cells),
            self.artifact,
        )  # fmt: skip

    def _new_cell(self, reference: str, device: int) -> int:
        cell = self.cells[reference, device] = len(self.cells)
        self.homes.setdefault(reference, (cell, device))
        return cell

    def _cell_on(self, reference: str, device: int) -> int:
        """The cell of a value on a device, with the operation that brings it there."""
        if (reference, device) in self.cells:
            return self.cells[reference, device]
        kind, _, name = reference.partition(":")
        home = self.homes.get(reference)
        cell = self._new_cell(reference, device)
        target = self.devices[device]
        if kind == "input":
            spec = self.function.inputs[int(name)]
            keep = reference in self.function.state_updates.values()
            element = element_type(spec.dtype)
            self.operations.append(Feed(int(name), cell, device, target, element, keep))
        elif kind == "state":
            element = element_type(self.manifest.weights[name].dtype)
            self.operations.append(Recall(name, cell, device, target, element))
        elif home is None:
            raise InternalError(f"a stage reads {reference!r} before any stage computes it")
        else:
            origin = self.devices[home[1]]
            self.operations.append(Move(home[0], home[1], cell, device, origin, target))
        return cell


def element_type(dtype: str) -> int:
    """IREE's number for a NumPy or ml_dtypes type."""
    from iree.runtime.array_interop import map_dtype_to_element_type

    found = map_dtype_to_element_type(np.dtype(dtype))
    if found is None:
        raise InternalError(f"IREE has no element type for {dtype}")
    return int(found)
