"""The operations of a call that touch a device of a plug-in; see runtime/operations.py.

    FeedPlugin    a host array     -> a cell on the device
    RecallPlugin  a state variable -> a cell on the device
    MovePlugin    a cell           -> a cell on another device, one of them a plug-in's
    InvokePlugin  cells            -> cells on the device

IREE's fences and a plug-in's submissions know nothing of each other, so a value that moves
between the two goes through host memory, and who moves it waits for it. Between stages on
one device nobody waits: it runs them in the order of submission.
"""

import math
from dataclasses import dataclass

import numpy as np
from iree.runtime import HalElementType

from lemurc.runtime import transport
from lemurc.runtime.boundary import DeviceTensor
from lemurc.runtime.call import Call
from lemurc.runtime.devices import OpenDevice
from lemurc.runtime.element_types import element_type
from lemurc.runtime.operations import put
from lemurc.runtime.plugin_executor import PluginExecutor, upload


@dataclass(frozen=True, eq=False)
class FeedPlugin:
    source: int
    cell: int
    target: OpenDevice
    dtype: np.dtype

    @property
    def reads(self) -> tuple[int, ...]:
        return ()

    @property
    def makes(self) -> tuple[int, ...]:
        return (self.cell,)

    def issue(self, call: Call) -> None:
        array = call.arrays[self.source]
        if isinstance(array, DeviceTensor):
            if array.device.name == self.target.name:
                call.views[self.cell] = array.view
                return
            array = array.numpy()
        call.views[self.cell] = upload(self.target, array.view(self.dtype))


@dataclass(frozen=True, eq=False)
class RecallPlugin:
    name: str
    cell: int
    target: OpenDevice

    @property
    def reads(self) -> tuple[int, ...]:
        return ()

    @property
    def makes(self) -> tuple[int, ...]:
        return (self.cell,)

    def issue(self, call: Call) -> None:
        assert call.state is not None
        resident = call.state.residents[self.name]
        if self.target.name not in resident.views:
            resident.views[self.target.name] = (
                self.target,
                upload(self.target, resident.array()),
            )
        call.views[self.cell] = resident.views[self.target.name][1]


@dataclass(frozen=True, eq=False)
class MovePlugin:
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
        array = self._in_host_memory(call)
        if self.target.plugin is not None:
            call.views[self.cell] = upload(self.target, array)
            return
        element = element_type(str(array.dtype))
        put(call, self, array, self.cell, self.device, self.target, element, call.escaping)

    def _in_host_memory(self, call: Call) -> np.ndarray:
        view, ready = call.views[self.source], call.ready[self.source]
        if self.origin.plugin is not None:
            if self.source in call.pending:
                call.pending[self.source].wait()
            return transport.fetch_now(view, self.origin, view.dtype)
        dtype = np.dtype(HalElementType.map_to_dtype(view.element_type))
        if self.origin.is_host:
            if ready is not None:
                ready[0].wait_for(ready[1])
            return transport.mapped(view, dtype)
        line = call.work.copies[self.source_device]
        staging, done = transport.download(
            view, ready, call.work.lane(self), line, call.begun(line)
        )
        if staging is None or done is None:
            return np.empty(tuple(view.shape), dtype)
        line.wait_for(done[1])
        size = math.prod(view.shape) * dtype.itemsize
        array: np.ndarray = staging.bytes[:size].view(dtype)
        return array.reshape(tuple(view.shape))


@dataclass(frozen=True, eq=False)
class InvokePlugin:
    executor: PluginExecutor
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def reads(self) -> tuple[int, ...]:
        return self.inputs

    @property
    def makes(self) -> tuple[int, ...]:
        return self.outputs

    def issue(self, call: Call) -> None:
        results, pending = self.executor.submit([call.views[cell] for cell in self.inputs])
        for cell, buffer in zip(self.outputs, results, strict=True):
            call.views[cell] = buffer
            call.pending[cell] = pending
