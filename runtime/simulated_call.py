"""How one call is issued to simulated devices: operation by operation, to their threads.

    Feed, Recall  at once; the value is there when the link from the host has carried it
    Move          on the thread of the link
    Invoke, ...   on the thread of the device, in the order of the plan

The operations are those of every call (operations.py). They run when what they read is there,
on devices whose work is done when it is issued.
"""

import functools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from lemurc.runtime import transport
from lemurc.runtime.boundary import DeviceTensor
from lemurc.runtime.call import Call, Operation, Queued
from lemurc.runtime.operations import Duplicate, Feed, Invoke, InvokeHost, Move, Recall
from lemurc.runtime.simulation import Simulation
from lemurc.runtime.work_queue import Job, Worker

if TYPE_CHECKING:
    from lemurc.runtime.program import Program

Work = Callable[[], None]


class SimulatedCall:
    """Issues the operations of one call of `program`. It does not refer to the call, so that
    memory is free when that ends."""

    def __init__(self, simulation: Simulation, program: "Program", on_device: bool) -> None:
        self._simulation = simulation
        self._leaving = frozenset(program.leaving(on_device))
        self._devices = program.devices
        self._made_by: dict[int, Job] = {}
        self._latest: dict[Worker, Job] = {}
        self._outliving = program.outliving
        self._reads_left = Counter(cell for op in program.operations for cell in op.reads)
        self._queued: list[Queued] = []
        self._copies = threading.Lock()
        """What is not a stage shares timelines of the call, and all share what it counts."""

    def issue(self, operation: Operation, call: Call) -> None:
        if isinstance(operation, (Feed, Recall)):
            self._bring(operation, call)
        elif isinstance(operation, Move):
            self._move(operation, call)
        elif isinstance(operation, InvokeHost):
            work = functools.partial(operation.issue, call)
            worker = self._simulation.host_worker
            queued = Queued("stage", worker.name, next(iter(operation.outputs), -1))
            self._add(call, worker, work, operation, queued)
        elif isinstance(operation, Duplicate):
            work = functools.partial(self._alone, operation, call)
            self._on_device(call, operation, work, "a copy")
        else:
            assert isinstance(operation, Invoke)
            work = functools.partial(operation.issue, call)
            self._on_device(call, operation, work, f"stage {operation.executor.name}")
            for cell in self._leaving.intersection(operation.outputs):
                self._leave(call, cell, self._devices[operation.device].name)

    def queued(self) -> list[Queued]:
        queued, self._queued = self._queued, []
        return queued

    def _on_device(self, call: Call, operation: Invoke | Duplicate, work: Work, name: str) -> None:
        machine = self._simulation.machine(self._devices[operation.device].name)

        def run() -> None:
            shapes = tuple(tuple(call.views[cell].shape) for cell in operation.reads)
            machine.compute((name, shapes), work)

        kind = "copy" if isinstance(operation, Duplicate) else "stage"
        queued = Queued(kind, machine.worker.name, next(iter(operation.makes), -1))
        self._add(call, machine.worker, run, operation, queued)

    def _bring(self, operation: Feed | Recall, call: Call) -> None:
        """Copied at once, as on real devices; the way there takes the time of the link."""
        origin, target = self._origin(operation, call), operation.target.name
        self._alone(operation, call)
        size = call.views[operation.cell].get_buffer().byte_length()
        self._simulation.brought(target, size)
        if origin != target:
            seconds = self._simulation.transfer_seconds(origin, target, size)
            work = functools.partial(self._simulation.sleep, seconds)
            link = self._simulation.link(origin, target)
            queued = Queued("transfer", f"{origin} -> {target}", operation.cell, size)
            self._add(call, link, work, operation, queued)

    def _origin(self, operation: Feed | Recall, call: Call) -> str:
        """What has the value now: the target itself, another device, or the host."""
        if isinstance(operation, Recall):
            assert call.state is not None
            known = call.state.residents[operation.name].views
            if operation.target.name in known:
                return operation.target.name
            return next(iter(known), self._simulation.host_name)
        array = call.arrays[operation.source]
        return array.device.name if isinstance(array, DeviceTensor) else self._simulation.host_name

    def _move(self, operation: Move, call: Call) -> None:
        simulation = self._simulation
        origin, target = operation.origin.name, operation.target.name

        link = simulation.link(origin, target)
        queued = Queued("transfer", f"{origin} -> {target}", operation.cell)

        def work() -> None:
            begin = time.perf_counter()
            source = call.views[operation.source]
            size = queued.bytes = source.get_buffer().byte_length()
            simulation.brought(target, size)
            call.views[operation.cell] = transport.copied_to(source, operation.target)
            end = begin + simulation.transfer_seconds(origin, target, size)
            simulation.sleep(end - time.perf_counter())

        self._add(call, link, work, operation, queued)

    def _leave(self, call: Call, cell: int, device: str) -> None:
        """The way of a result to the host."""
        simulation, host = self._simulation, self._simulation.host_name
        if device == host:
            return

        link = simulation.link(device, host)
        queued = Queued("transfer", f"{device} -> {host}", cell)

        def work() -> None:
            size = queued.bytes = call.views[cell].get_buffer().byte_length()
            simulation.sleep(simulation.transfer_seconds(device, host, size))

        queued.ran = call.pending[cell] = Job(link, work, [self._made_by[cell]])
        self._queued.append(queued)

    def _alone(self, operation: Operation, call: Call) -> None:
        with self._copies:
            operation.issue(call)

    def _add(
        self, call: Call, worker: Worker, work: Work, operation: Operation, queued: Queued
    ) -> None:
        """Queue `work` after what `operation` reads, and after what the call has queued there
        before."""

        def run() -> None:
            work()
            self._release(call, operation.reads)

        before = [self._made_by[cell] for cell in operation.reads if cell in self._made_by]
        before += [self._latest[worker]] if worker in self._latest else []
        job = self._latest[worker] = Job(worker, run, before)
        for cell in operation.makes:
            self._made_by[cell] = call.pending[cell] = job
        queued.ran = job
        self._queued.append(queued)

    def _release(self, call: Call, cells: Iterable[int]) -> None:
        """Let go of the memory of what has now been read for the last time."""
        with self._copies:
            self._reads_left.subtract(cells)
            for cell in cells:
                if not self._reads_left[cell] and cell not in self._outliving:
                    call.views[cell] = None
