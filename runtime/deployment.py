"""A plan of an artifact on devices, and the next one where a device fails."""

import copy
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lemurc.errors import DeviceError
from lemurc.manifest import HOST, Plan
from lemurc.runtime.artifact import Artifact
from lemurc.runtime.devices import OpenDevice, open_device
from lemurc.runtime.iree_errors import FAILURES
from lemurc.runtime.layout import Executors, compile_program
from lemurc.runtime.micro_batches import MicroBatched
from lemurc.runtime.placement import Choice, LemurcWarning, choose
from lemurc.runtime.program import Issue, Program
from lemurc.runtime.stages import is_tiny, load_stages
from lemurc.runtime.state import State
from lemurc.runtime.stream import parts_in_flight

if TYPE_CHECKING:
    from lemurc.runtime.simulation import Simulation
    from lemurc.system_file import SystemDescription

Programs = dict[str, Program | MicroBatched]


@dataclass(frozen=True)
class InFlight:
    """A call that was begun on `programs`; `results` are there when `wait` has returned."""

    arrays: Sequence[Any]
    wait: Callable[[], None]
    results: Callable[[], list[Any]]
    programs: Programs


class Deployment:
    """The best plan that works here: its open devices, loaded stages and, for each function,
    a program. When a device fails the plan is another one, with a LemurcWarning; `strict` makes
    that the DeviceError it comes from."""

    choice: Choice
    devices: dict[str, OpenDevice]
    """By the plan's names."""
    executors: Executors
    programs: Programs
    simulation: "Simulation | None"

    def __init__(
        self,
        artifact: Artifact,
        wanted: Sequence[str] | None,
        strict: bool,
        simulate: "SystemDescription | None",
    ) -> None:
        self._artifact = artifact
        self._wanted = wanted
        self._strict = strict
        self._simulate = simulate
        self._failed: frozenset[str] = frozenset()
        self._lock = threading.RLock()
        self._settle()

    def copy(self, artifact: Artifact) -> "Deployment":
        """One that shares what is loaded and may come to another plan."""
        with self._lock:
            twin = copy.copy(self)
        twin._artifact = artifact
        twin._lock = threading.RLock()
        return twin

    def run(
        self, function: str, arrays: list[Any], state: State | None, on_device: bool, issue: Issue
    ) -> tuple[list[Any], dict[int, Any]]:
        """`Program.run`, on the devices that are left."""
        while True:
            programs = self.programs
            try:
                return programs[function].run(arrays, state, on_device, issue)
            except DeviceError as error:
                self._go_on_without(programs, error)

    def begin(self, function: str, arrays: list[Any], on_device: bool, issue: Issue) -> InFlight:
        """Queue a call of a model without state; `finish` takes what comes back."""
        while True:
            programs = self.programs
            try:
                return _begun(programs, function, arrays, on_device, issue)
            except DeviceError as error:
                self._go_on_without(programs, error)

    def finish(self, function: str, begun: InFlight, on_device: bool, issue: Issue) -> list[Any]:
        """The results of a call that was begun, of another one where a device failed meanwhile."""
        try:
            begun.wait()
            return begun.results()
        except DeviceError as error:
            self._go_on_without(begun.programs, error)
            return self.run(function, list(begun.arrays), None, on_device, issue)[0]

    def laid_out(self) -> list[Program]:
        """The programs whose operations calls consist of."""
        return [p.program if isinstance(p, MicroBatched) else p for p in self.programs.values()]

    def close(self) -> None:
        with self._lock:
            self.programs, self.executors = {}, {}

    def _settle(self) -> None:
        """Load the best plan that works, passing over devices that fail."""
        manifest = self._artifact.manifest
        while True:
            self.simulation = _simulated(self._simulate)
            chooser = choose if self.simulation is None else self.simulation.choose
            self.choice = chooser(manifest, self._wanted, self._failed)
            self._tell()
            plan = self.choice.plan
            try:
                self.devices = {
                    device.name: self._open(self.choice.bound[device.name])
                    for device in plan.devices
                }
                self.executors = load_stages(self._artifact, plan, self.devices)
                if self.simulation is not None:
                    self.simulation.loaded(self.executors.values())
                break
            except DeviceError as error:
                name = error.where if error.where in self.choice.bound.values() else ""
                if self._strict or not name:
                    raise
                self._failed |= {name}
                _warn(error.message)
        self.programs = {name: self._program(plan, name) for name in manifest.functions}

    def _program(self, plan: Plan, name: str) -> Program | MicroBatched:
        program = compile_program(
            self._artifact, self._artifact.manifest.functions[name], plan.steps[name],
            self.devices, self.executors, self.simulation,
        )  # fmt: skip
        cut = plan.micro_batches.get(name)
        if cut is None:
            return program
        return MicroBatched(program, cut, parts_in_flight(self.devices.values()))

    def _open(self, name: str) -> OpenDevice:
        if self.simulation is not None:
            return self.simulation.open(name)
        tiny = is_tiny(self._artifact.manifest, self.choice.plan)
        return open_device(name, synchronous=tiny)

    def _go_on_without(self, programs: Programs, error: DeviceError) -> None:
        """Settle for a plan without the device that failed in a call, or raise `error`."""
        if error.code not in FAILURES:
            raise error
        with self._lock:
            if self.programs is not programs:
                return  # another thread has done it
            here = [device.name for device in self.devices.values()]
            names = [name for name in error.where.split(", ") if name in here]
            if self._strict or len(names) != 1:
                raise error
            self._failed |= {names[0]}
            _warn(error.message)
            self._settle()

    def _tell(self) -> None:
        choice = self.choice
        if not choice.passed_over or self._failed or self._wanted is not None:
            return
        reason = "; ".join(choice.passed_over)
        if self._strict:
            raise DeviceError(
                f"the preferred plan cannot run: {reason}",
                code="plan-not-available",
                where=str(self._artifact.path),
                hint="make the device available, or load without strict",
            )
        used = ", ".join(name for name in choice.bound.values() if name != HOST)
        _warn(f"{reason}; running on {used} instead")


def _begun(
    programs: Programs, function: str, arrays: list[Any], on_device: bool, issue: Issue
) -> InFlight:
    program = programs[function]
    if isinstance(program, MicroBatched):
        batch = program.begin(arrays, issue)
        return InFlight(arrays, batch.wait, lambda: program.finish(batch, on_device), programs)
    call = program.begin(arrays, None, on_device, issue)
    return InFlight(arrays, call.wait, lambda: program.finish(call, on_device)[0], programs)


def _simulated(system: "SystemDescription | None") -> "Simulation | None":
    if system is None:
        return None
    from lemurc.runtime.simulation import Simulation

    return Simulation(system)


def _warn(message: str) -> None:
    """Name the line of the user's that loads or calls, however far away it is."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("lemurc."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, LemurcWarning, stacklevel=level)
