"""The operations a call is made of. Issuing one only queues its work.

    Feed       a host array            -> a cell on a device
    Recall     a state variable        -> a cell on a device
    Move       a cell on one device    -> a cell on another
    Duplicate  a cell                  -> a cell on the same device
    Invoke     cells on a device       -> cells on it
    InvokeHost cells in host memory    -> cells in it, by PyTorch
    Fetch      a cell                  -> staging memory, for a result on a far device

Devices of plug-ins have operations of their own, in plugin_operations.py.

A cell is one value on one device. Fences order the operations, so nothing waits on the
host until the end of the call, but for operators that PyTorch runs there. Code may write
into some of its inputs (see targets/memory_effects.py): those have a cell of their own,
`own` memory that nothing else reads. That of a state variable may be its only memory, when
the call replaces it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from iree.runtime import HalBufferView

from lemurc.runtime import transport
from lemurc.runtime.boundary import DeviceTensor
from lemurc.runtime.call import Call
from lemurc.runtime.devices import OpenDevice
from lemurc.runtime.executor import StageExecutor
from lemurc.runtime.host_operators import HostExecutor
from lemurc.runtime.iree_errors import translated
from lemurc.runtime.timeline import Point, Timeline


@dataclass(frozen=True, eq=False)
class Feed:
    source: int
    cell: int
    device: int
    target: OpenDevice
    element: int
    keep: bool
    """The value becomes state or is written into, so it must not be the caller's memory."""
    own: bool = False

    @property
    def reads(self) -> tuple[int, ...]:
        return ()

    @property
    def makes(self) -> tuple[int, ...]:
        return (self.cell,)

    def issue(self, call: Call) -> None:
        array = call.arrays[self.source]
        if isinstance(array, DeviceTensor):
            if array.device.hal is self.target.hal:
                call.views[self.cell] = array.view
                if self.own:
                    duplicate(call, self.cell, self.cell, self.device)
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
    own: bool = False
    replaced: bool = False
    """The call has a new value for it, and nothing else reads the old one."""

    @property
    def reads(self) -> tuple[int, ...]:
        return ()

    @property
    def makes(self) -> tuple[int, ...]:
        return (self.cell,)

    def issue(self, call: Call) -> None:
        assert call.state is not None
        resident = call.state.residents[self.name]
        known = resident.views.get(self.target.name)
        if known is None:
            array = resident.array()
            put(call, self, array, self.cell, self.device, self.target, self.element, True)
            if self.own:
                return
            if call.ready[self.cell] is not None:
                call.work.copies[self.device].wait()
            resident.views[self.target.name] = (self.target, call.views[self.cell])
            return
        call.views[self.cell] = known[1]
        if self.own and self.replaced and not resident.shared:
            call.donated.append(resident)
        elif self.own:
            duplicate(call, self.cell, self.cell, self.device)


@dataclass(frozen=True, eq=False)
class Duplicate:
    source: int
    cell: int
    device: int

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.source,)

    @property
    def makes(self) -> tuple[int, ...]:
        return (self.cell,)

    def issue(self, call: Call) -> None:
        duplicate(call, self.source, self.cell, self.device)


@dataclass(frozen=True, eq=False)
class Move:
    source: int
    source_device: int
    cell: int
    device: int
    origin: OpenDevice
    target: OpenDevice

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.source,)

    @property
    def makes(self) -> tuple[int, ...]:
        return (self.cell,)

    def issue(self, call: Call) -> None:
        view, ready, work = call.views[self.source], call.ready[self.source], call.work
        if self.origin.is_host and self.target.is_host:
            call.views[self.cell], call.ready[self.cell] = view, ready
            return
        lane = work.lane(self)
        size = view.get_buffer().byte_length()
        if not size:
            buffer = lane.target(self.target, 0, True)
            call.views[self.cell] = HalBufferView(buffer, view.shape, view.element_type)
            return
        line_in, line_out = work.copies[self.source_device], work.copies[self.device]
        if self.target.is_host and not call.escaping:
            staging, done = transport.download(view, ready, lane, line_in, call.begun(line_in))
            assert staging is not None
            buffer = staging.on_host(self.target)
            call.borrowed.append(staging.bytes)
        else:
            buffer, done = self._relay(call, lane, view, ready, size, line_in, line_out)
        call.views[self.cell] = HalBufferView(buffer, view.shape, view.element_type)
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

    @property
    def reads(self) -> tuple[int, ...]:
        return self.inputs

    @property
    def makes(self) -> tuple[int, ...]:
        return self.outputs

    def issue(self, call: Call) -> None:
        call.give_away_donated()
        line, views, ready = call.work.compute[self.device], call.views, call.ready
        wait = line.after([ready[cell] for cell in self.inputs], call.begun(line))
        results = self.executor.submit([views[cell] for cell in self.inputs], wait, line.advance())
        point = (line, line.value)
        for cell, view in zip(self.outputs, results, strict=True):
            views[cell] = view
            ready[cell] = point


@dataclass(frozen=True, eq=False)
class InvokeHost:
    executor: HostExecutor
    target: OpenDevice
    inputs: tuple[int, ...]
    dtypes: tuple[np.dtype, ...]
    outputs: tuple[int, ...]
    elements: tuple[int, ...]

    @property
    def reads(self) -> tuple[int, ...]:
        return self.inputs

    @property
    def makes(self) -> tuple[int, ...]:
        return self.outputs

    def issue(self, call: Call) -> None:
        for cell in self.inputs:
            if (point := call.ready[cell]) is not None:
                point[0].wait_for(point[1])
        cells = zip(self.inputs, self.dtypes, strict=True)
        results = self.executor.run(
            [transport.mapped(call.views[cell], dtype) for cell, dtype in cells]
        )
        for cell, element, array in zip(self.outputs, self.elements, results, strict=True):
            with translated("copy a result of PyTorch", self.target.name):
                # copied, since an operator may return what it was given
                call.views[cell], _ = transport.host_view(array, self.target, element, True)


@dataclass(frozen=True, eq=False)
class Fetch:
    cell: int
    device: int

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.cell,)

    @property
    def makes(self) -> tuple[int, ...]:
        return ()

    def issue(self, call: Call) -> None:
        line = call.work.copies[self.device]
        call.staged[self.cell], _ = transport.download(
            call.views[self.cell],
            call.ready[self.cell],
            call.work.lane(self),
            line,
            call.begun(line),
        )


def duplicate(call: Call, source: int, cell: int, device: int) -> None:
    """The value of one cell in fresh memory, as another or the same cell."""
    line = call.work.copies[device]
    call.views[cell], call.ready[cell] = transport.duplicate(
        call.views[source], call.ready[source], line, call.begun(line)
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
