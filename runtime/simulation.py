"""Machines that are not here: CPU devices slowed down, limited and linked as described.

    lemurc.load("model.lemur", simulate="system.json")

Code runs for real, on one thread for each device; slowing is sleeping. A device that is four
times as slow as a thread here computes for t of processor time and then sleeps until 4t have
passed, before what waits for it begins. A transfer sleeps on a thread of its link, so that it
overlaps with computing. The fastest device has one whole thread at most, and all of them
together the processor's cores: where a description is faster than that, all times are
stretched alike. Of a device, its `slowdown`, `threads` and `memory` are simulated; rates are
for planning.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from lemurc.errors import DeviceError
from lemurc.manifest import HOST, Manifest, Plan, Stage
from lemurc.runtime.devices import HOST_TARGETS, OpenDevice
from lemurc.runtime.executor import StageExecutor
from lemurc.runtime.iree_errors import out_of_memory
from lemurc.runtime.machine import available_cores
from lemurc.runtime.own_devices import OwnDevice
from lemurc.runtime.placement import Choice, modules_for
from lemurc.runtime.reassignment import reassigned
from lemurc.runtime.work_queue import Worker
from lemurc.system_file import (
    DeviceDescription,
    SimulatedDevice,
    SystemDescription,
    check_system,
    transfer_seconds,
)
from lemurc.units import size

_MOST_STRETCH = 1e4
"""A machine of so many cores takes minutes for a call of a second."""


class Simulation:
    """The devices and links of `system`, for one session."""

    def __init__(self, system: SystemDescription) -> None:
        check_system(system, "simulate")
        self.system = system
        speeds = {device.name: _speed(device) for device in system.devices}
        shared = sum(speeds.values()) / available_cores()
        self.stretch = max(1.0, shared, *speeds.values())
        if self.stretch > _MOST_STRETCH:
            fastest = max(speeds, key=lambda name: speeds[name])
            raise DeviceError(
                f"cannot simulate {fastest}, which is {speeds[fastest]:.3g} times as fast as a "
                f"thread of this processor: all times would be stretched {self.stretch:.3g}x",
                code="cannot-simulate",
                where=fastest,
                hint="look at the `threads` and `slowdown` of the description",
            )
        self._slower = {name: self.stretch / speed for name, speed in speeds.items()}
        self._described = {device.name: device for device in system.devices}
        cpus = [device.name for device in system.devices if device.target == "cpu"]
        self.host_name = cpus[0] if cpus else "host memory"
        """Where inputs come from and results go: a CPU, or memory that is no device's."""
        self.host_worker = Worker(HOST)
        self._links: dict[tuple[str, str], Worker] = {}
        self._opened: dict[str, Machine] = {}
        self._users = 1
        self._ended = threading.Event()

    def choose(
        self, manifest: Manifest, wanted: Sequence[str] | None, failed: frozenset[str]
    ) -> Choice:
        """The first plan that described devices can run, with the code for CPUs."""
        passed_over: list[str] = []
        allowed = [
            device
            for device in self.system.devices
            if device.name not in failed
            and (wanted is None or device.name in wanted or device.target in wanted)
        ]
        for plan in manifest.plans:
            bound, why = self._bind(manifest, plan, allowed)
            if bound is not None:
                return Choice(plan, bound, tuple(passed_over))
            names = ", ".join(d.name for d in plan.devices if d.target != HOST)
            passed_over.append(f"the plan for {names}: {why}")
        for plan in manifest.plans:
            moved = self._reassigned(manifest, plan, allowed)
            if moved is not None:
                return Choice(*moved, tuple(passed_over))
        names = ", ".join(self._described)
        raise DeviceError(
            f"no plan of this artifact can be simulated with {names}"
            + "".join(f"\n  {reason}" for reason in passed_over),
            code="cannot-simulate",
            hint="compile with --targets cpu, and --system with the description to simulate",
        )

    def open(self, name: str) -> OpenDevice:
        """A device of the description, or PyTorch's memory, as the runtime sees it."""
        if name == HOST:
            near = self.machine(next(iter(self._described))).device
            return replace(near, name=HOST, target=HOST, description="PyTorch on the CPU")
        return self.machine(name).device

    def machine(self, name: str) -> "Machine":
        """The simulated device called `name`, opened when it is first asked for."""
        if name not in self._opened:
            described = self._described[name]
            target = described.target if described.target in HOST_TARGETS else "cpu"
            slower, memory = self._slower[name], described.memory
            self._opened[name] = Machine(name, target, slower, memory, self._ended)
        return self._opened[name]

    def loaded(self, executors: Iterable[object]) -> None:
        """Count the weights on each device; DeviceError where they do not fit."""
        weights: dict[str, dict[str, int]] = {name: {} for name in self._opened}
        for executor in executors:
            if isinstance(executor, StageExecutor):
                weights[executor.device.name].update(executor.weight_bytes)
        for name, sizes in weights.items():
            self._opened[name].hold(sum(sizes.values()))

    def share(self) -> None:
        """One more session uses it."""
        self._users += 1

    def end(self) -> None:
        """A session uses it no more; after the last one nothing sleeps any longer."""
        self._users -= 1
        if not self._users:
            self._ended.set()

    def sleep(self, seconds: float) -> None:
        self._ended.wait(seconds)

    def brought(self, name: str, size: int) -> None:
        """A value was put on a device by another thread than its own."""
        if name != HOST:
            self.machine(name).bring(size)

    def link(self, src: str, dst: str) -> Worker:
        """The thread that transfers from one device to another."""
        if (src, dst) not in self._links:
            self._links[src, dst] = Worker(f"{src} to {dst}")
        return self._links[src, dst]

    def transfer_seconds(self, src: str, dst: str, size: int) -> float:
        return self.stretch * transfer_seconds(self.system, src, dst, size)

    def report(self) -> tuple[SimulatedDevice, ...]:
        """What each device that was opened does, in the order of the description."""
        names = [name for name in self._described if name in self._opened]
        return tuple(self._opened[name].report() for name in names)

    def line(self) -> str:
        """simulated: cpu:0 at full speed, cpu:1 4x slower"""
        parts = [
            f"{row.device} {row.times_slower:.3g}x slower"
            if row.times_slower > 1
            else f"{row.device} at full speed"
            for row in self.report()
        ]
        stretched = f", all times stretched {self.stretch:.3g}x" if self.stretch > 1 else ""
        return f"simulated: {', '.join(parts)}{stretched}"

    def _bind(
        self, manifest: Manifest, plan: Plan, allowed: Sequence[DeviceDescription]
    ) -> tuple[dict[str, str] | None, str]:
        bound: dict[str, str] = {}
        found = self._devices_for(plan, allowed)
        for device in plan.devices:
            name = found[device.name]
            if name is None:
                return None, f"no {device.target} device is left for {device.name}"
            bound[device.name] = name
        for steps in plan.steps.values():
            for step in steps:
                stage, name = manifest.stages[step.stage], bound[step.device]
                if name != HOST and not self._has_code(stage, name):
                    has = ", ".join(sorted({module.target for module in stage.modules}))
                    return None, f"{step.stage} on {name} has code for {has} and none for cpu"
        return bound, ""

    def _devices_for(
        self, plan: Plan, allowed: Sequence[DeviceDescription]
    ) -> dict[str, str | None]:
        """The described device for each device of the plan, or None where there is none for it."""
        bound: dict[str, str | None] = {}
        for device in plan.devices:
            free = [d.name for d in allowed if d.target == device.target]
            free = [name for name in free if name not in bound.values()]
            if device.target == HOST:
                bound[device.name] = HOST
            elif device.name in free:
                bound[device.name] = device.name
            else:
                bound[device.name] = free[0] if free else None
        return bound

    def _reassigned(
        self, manifest: Manifest, plan: Plan, allowed: Sequence[DeviceDescription]
    ) -> tuple[Plan, dict[str, str]] | None:
        bound = self._devices_for(plan, allowed)
        left = {device.name: device.target for device in allowed}

        def can(stage: Stage, name: str) -> bool:
            there = any(module.target == left[name] for module in stage.modules)
            return (there or name in bound.values()) and self._has_code(stage, name)

        return reassigned(manifest, plan, bound, left, can)

    def _has_code(self, stage: Stage, name: str) -> bool:
        target = self._described[name].target
        return bool(modules_for(stage, target if target in HOST_TARGETS else "cpu"))


class Machine:
    """One simulated device: a thread, a device of IREE's to compute on it, and memory."""

    def __init__(
        self,
        name: str,
        target: str,
        slower: float,
        memory: int | None,
        ended: threading.Event,
    ) -> None:
        self._own = OwnDevice(name)
        self.device = OpenDevice(name, target, "simulated", self._own.hal, is_host=True)
        self.worker = Worker(name)
        self._slower = slower
        self._ended = ended
        self._limit = memory
        self._weights = self._brought = 0
        self._needs: dict[tuple[Any, ...], int] = {}
        self._lock = threading.Lock()

    def hold(self, weights: int) -> None:
        self._weights = weights
        self._refuse_more_than_limit(0, "load its weights")

    def compute(self, what: tuple[Any, ...], work: Callable[[], None]) -> None:
        """Do `work` as slowly as the device is; `what` is equal for work that needs equal memory.

        The memory is counted when it is there, and what was once too much is refused before.
        """
        begin, computed = time.perf_counter(), time.thread_time()
        brought = self._brought
        live, peak = self._own.live(), self._own.peak()
        self._refuse_more_than_limit(live + self._needs.get(what, 0), f"run {what[0]}")
        work()
        after = self._own.peak()
        if after > peak:
            self._needs[what] = after - live - (self._brought - brought)
            self._refuse_more_than_limit(after, f"run {what[0]}")
        end = begin + self._slower * (time.thread_time() - computed)
        self._ended.wait(end - time.perf_counter())

    def bring(self, size: int) -> None:
        """Count what is no need of what is computed meanwhile."""
        with self._lock:
            self._brought += size

    def report(self) -> SimulatedDevice:
        peak = self._weights + self._own.peak()
        return SimulatedDevice(self.device.name, self._slower, self._limit, self._weights, peak)

    def _refuse_more_than_limit(self, live: int, doing: str) -> None:
        if self._limit is not None and self._weights + live > self._limit:
            raise out_of_memory(
                f"cannot {doing} on {self.device.name}, simulated: {size(self._weights)} of "
                f"weights and {size(live)} live at once are more than its {size(self._limit)}",
                self.device.name,
            )


def _speed(device: DeviceDescription) -> float:
    """In threads of this processor."""
    return (device.threads or 1) / device.slowdown
