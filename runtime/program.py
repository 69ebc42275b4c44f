"""One entry point under one plan: a fixed list of operations, and what a call makes of it."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lemurc.errors import InternalError
from lemurc.manifest import Function, TensorSpec
from lemurc.runtime.boundary import DeviceTensor
from lemurc.runtime.devices import OpenDevice
from lemurc.runtime.iree_errors import translated
from lemurc.runtime.operations import Call, Fetch, Operation, Workspace
from lemurc.runtime.state import Resident, State


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
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    """The weights that are results themselves, by name."""
    _idle: list[Workspace] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._where = ", ".join(device.name for device in self.devices)
        self._kept = frozenset(self.function.state_updates.values())
        self._dtypes = [np.dtype(spec.dtype) for spec in self.function.outputs]
        self._stateful = bool(self.function.state_updates) or any(
            reference.startswith("state:") for reference in self.homes
        )

    def run(self, arrays: Sequence[Any], state: State | None, on_device: bool) -> list[Any]:
        """Flat outputs for checked flat inputs; state is replaced when all went well."""
        with self._lock:
            work = self._idle.pop() if self._idle else None
        if work is None:
            with translated("create a timeline", self._where):
                work = Workspace(self.devices)
        call = Call(self.cells, arrays, state, work, on_device or bool(self.function.state_updates))
        with translated("run", self._where):
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
        for reference, spec, dtype in zip(
            self.function.results, self.function.outputs, self._dtypes, strict=True
        ):
            kind, _, name = reference.partition(":")
            if kind == "input":
                value = call.arrays[int(name)]
                results.append(value if isinstance(value, DeviceTensor) else np.array(value))
            elif kind == "param":
                results.append(self.weights[name].copy())
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
                shared = reference in self._kept or kind == "state" or self._stateful
                if device.is_host and (
                    shared or (guarded and any(np.may_share_memory(array, g) for g in guarded))
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
