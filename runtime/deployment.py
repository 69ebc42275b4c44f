"""A plan of an artifact on devices, and what happens where a device fails or does not answer."""

import copy
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lemurc.errors import BudgetError, DeviceError
from lemurc.manifest import HOST
from lemurc.runtime.artifact import Artifact
from lemurc.runtime.attempt import Attempt
from lemurc.runtime.call import Call, Issue
from lemurc.runtime.devices import OpenDevice, open_device
from lemurc.runtime.iree_errors import FAILURES
from lemurc.runtime.layout import Executors, compile_program
from lemurc.runtime.loading import found_within, within
from lemurc.runtime.micro_batches import Batch, MicroBatched
from lemurc.runtime.placement import Choice, LemurcWarning, choose, targets_of
from lemurc.runtime.program import Program
from lemurc.runtime.spare_threads import on_thread
from lemurc.runtime.stages import is_tiny, load_stages
from lemurc.runtime.state import State
from lemurc.runtime.stream import parts_in_flight
from lemurc.runtime.suspects import waited_for

if TYPE_CHECKING:
    from lemurc.runtime.simulation import Simulation
    from lemurc.system_file import SystemDescription

Results = tuple[list[Any], dict[int, Any]]
MakeRoom = Callable[[], tuple[bool, int]]
"""Waits for the other calls in flight: InFlight.make_room."""
T = TypeVar("T")


class Runnable(Protocol):
    """A Program, or one that computes a call in parts."""

    @property
    def laid_out(self) -> Program:
        """What calls consist of."""

    def run(
        self,
        arrays: Sequence[Any],
        state: State | None,
        on_device: bool,
        issue: Issue = ...,
        attempt: Attempt | None = None,
    ) -> Results: ...

    def begin(
        self,
        arrays: Sequence[Any],
        state: State | None,
        on_device: bool,
        issue: Issue = ...,
        attempt: Attempt | None = None,
    ) -> Any: ...

    def finish(self, call: Any, on_device: bool, attempt: Attempt | None = None) -> Results: ...


Programs = dict[str, Runnable]


@dataclass(frozen=True)
class Overdue:
    """A call that ran out of time and still has a device at work."""

    task: "Future[Any]"
    device: str
    seconds: float


class Deployment:
    """The best plan that works here: its open devices, loaded stages and, for each function,
    a program. When a device fails the plan is another one, with a LemurcWarning; `strict` makes
    that the DeviceError it comes from, and so does a device without which nothing can run.

    A device that is not opened, or has not loaded a stage, after `load_timeout` seconds failed.
    A call that takes longer than `timeout` seconds is given up. If the device that it waited for
    is still at it when a later call has waited as long, that device is one that failed.
    """

    timeout: float | None
    choice: Choice
    devices: dict[str, OpenDevice]
    """By the plan's names."""
    executors: Executors
    programs: Programs
    simulation: "Simulation | None"
    failed: dict[str, str]
    """Why each device that is done without is."""

    def __init__(
        self,
        artifact: Artifact,
        wanted: Sequence[str] | None,
        strict: bool,
        simulate: "SystemDescription | None",
        timeout: float | None = None,
        load_timeout: float | None = None,
    ) -> None:
        self._artifact = artifact
        self._wanted = wanted
        self._strict = strict
        self._simulate = simulate
        self._load_timeout = load_timeout
        self.timeout = timeout
        self.failed = {}
        self.programs = {}
        self.simulation = None
        self._overdue: tuple[Overdue, ...] = ()
        self._lock = threading.RLock()
        if told := self._settle({}, None):
            warn(told)

    def copy(self, artifact: Artifact) -> "Deployment":
        """One that shares what is loaded and may come to another plan."""
        with self._lock:
            twin = copy.copy(self)
            if self.simulation is not None:
                self.simulation.share()
        twin._artifact = artifact
        twin._lock = threading.RLock()
        return twin

    def run(
        self,
        function: str,
        arrays: list[Any],
        state: State | None,
        on_device: bool,
        issue: Issue,
        attempt: Attempt | None = None,
    ) -> Results:
        """`Program.run`, on the devices that are left, and within the timeout. GivenUp or
        CancelledError where another thread cancels the `attempt`."""
        doubted = ""
        while True:
            programs = self.programs
            try:
                if self._overdue:
                    self._wait_for_overdue()
                program = programs[function]
                how = program.laid_out.issue_and_wait if doubted else issue
                if self.timeout is None:
                    results = (
                        program.run(arrays, state, on_device, how)
                        if attempt is None
                        else program.run(arrays, state, on_device, how, attempt)
                    )
                else:
                    mine = Attempt() if attempt is None else attempt
                    work = partial(program.run, arrays, state, on_device, how, mine)
                    results = self._limited(program, mine, work, state)
                if doubted:
                    warn(f"{doubted}; the call was made again")
                return results
            except DeviceError as error:
                if doubted and error.code == "state-lost":
                    error.message = f"{error.message}: {doubted}"
                    raise
                if not doubted and self._is_in_doubt(error):
                    doubted = error.message
                else:
                    self._go_on_without(programs, error, state)
                    doubted = ""

    def begin(
        self,
        function: str,
        arrays: list[Any],
        on_device: bool,
        issue: Issue,
        make_room: MakeRoom,
    ) -> "tuple[Call | Batch, Programs]":
        """Queue a call of a model without state; `finish` takes what comes back."""
        doubted = made_room = False
        while True:
            programs = self.programs
            try:
                if self._overdue:
                    self._wait_for_overdue()
                program = programs[function]
                if self.timeout is None:
                    return program.begin(arrays, None, on_device, issue), programs
                attempt = Attempt()
                work = partial(program.begin, arrays, None, on_device, issue, attempt)
                return self._limited(program, attempt, work, None), programs
            except DeviceError as error:
                if not made_room and _made_room(error, make_room):
                    made_room = True
                elif not doubted and self._is_in_doubt(error):
                    doubted = True
                    self.run(function, arrays, None, on_device, issue)
                else:
                    self._go_on_without(programs, error, None)

    def finish(
        self,
        function: str,
        begun: "tuple[Call | Batch, Programs]",
        on_device: bool,
        issue: Issue,
        make_room: MakeRoom,
    ) -> list[Any]:
        """The results of a call that was begun, of another one where a device failed meanwhile."""
        call, programs = begun
        program = programs[function]

        def finished() -> list[Any]:
            call.wait()
            return program.finish(call, on_device)[0]

        try:
            if self.timeout is None:
                return finished()
            attempt = Attempt()
            attempt.call = call.calls[0] if isinstance(call, Batch) else call
            return self._limited(program, attempt, finished, None)
        except DeviceError as error:
            if error.code == "out-of-memory":  # beside others, which may be gone by now
                self.abandon(begun)  # what it has so far is memory too
                _made_room(error, make_room)
            elif not self._is_in_doubt(error):
                self._go_on_without(programs, error, None)
            results, _ = self.run(function, list(call.arrays), None, on_device, issue)
        return results

    def abandon(self, begun: "tuple[Call | Batch, Programs]") -> None:
        """Wait for a call that was begun, unless a device hangs; what it failed by is raised by
        `finish`, if anybody wants it."""
        if self.timeout is None:
            begun[0].end()
        elif not self._overdue:
            wait([on_thread(begun[0].end)], self.timeout)

    def close(self) -> None:
        if self.simulation is not None and self.programs:
            self.simulation.end()
        self.programs, self.executors = {}, {}

    def _limited(
        self, program: Runnable, attempt: Attempt, work: Callable[[], T], state: State | None
    ) -> T:
        """`work`, which is done for `attempt`, within the timeout."""
        task = on_thread(work)
        seconds = self.timeout
        try:
            return attempt.outcome(task, seconds)
        except TimeoutError:
            assert seconds is not None
            device = waited_for(program.laid_out, attempt)
            with self._lock:
                self._overdue += (Overdue(task, device, seconds),)
            raise _took_too_long(device, seconds, state) from None
        finally:
            del task  # its error refers to this frame

    def _wait_for_overdue(self) -> None:
        """Raise DeviceError when a call that ran out of time still keeps its device."""
        here = {device.name for device in self.devices.values()}
        kept = [late for late in self._overdue if here.intersection(late.device.split(", "))]
        if self.timeout is not None:
            wait([late.task for late in kept], self.timeout)
        with self._lock:
            self._overdue = tuple(late for late in self._overdue if not late.task.done())
        for late in kept if self.timeout is not None else ():
            if not late.task.done():
                raise DeviceError(
                    f"{late.device} has not answered since a call that was given up after "
                    f"{late.seconds:g} s",
                    code="device-hung",
                    where=late.device,
                    hint="leave it out with devices=; where it is only slow give calls more time",
                )

    def _settle(self, excluded: dict[str, str], cause: DeviceError | None) -> str:
        """Load the best plan that works without devices that are `excluded` or fail.

        Returns what is to be told about it. Where none is left, raises `cause`, or why the first
        of them failed, and nothing has changed.
        """
        manifest = self._artifact.manifest
        while True:
            simulation = _simulated(self._simulate)
            without = frozenset(excluded)
            try:
                if simulation is not None:
                    choice = simulation.choose(manifest, self._wanted, without)
                else:
                    found = found_within(self._load_timeout, targets_of(manifest))
                    choice = choose(manifest, self._wanted, without, found)
            except DeviceError as error:
                raise (cause or error) from (error if cause else None)
            told = "" if excluded else self._passed_over(choice)
            plan = choice.plan
            try:
                devices = {
                    device.name: self._open(choice, device.name, simulation)
                    for device in plan.devices
                }
                executors = load_stages(self._artifact, plan, devices, self._load_timeout)
                if simulation is not None:
                    simulation.loaded(executors.values())
                programs: Programs = {}
                for name, function in manifest.functions.items():
                    program = compile_program(
                        self._artifact, function, plan.steps[name], devices, executors, simulation
                    )
                    cut = plan.micro_batches.get(name)
                    depth = parts_in_flight(devices.values())
                    programs[name] = MicroBatched(program, cut, depth) if cut else program
                break
            except DeviceError as error:
                name = error.where if error.where in choice.bound.values() else ""
                if self._strict or not name or name == HOST:
                    raise
                cause = cause or error
                excluded = {**excluded, name: error.message}
        if self.simulation is not None:
            self.simulation.end()
        self.choice, self.devices, self.executors = choice, devices, executors
        self.simulation, self.programs = simulation, programs
        new = [why for name, why in excluded.items() if name not in self.failed]
        self.failed = excluded
        told = told or "; ".join(new)
        used = ", ".join(name for name in choice.bound.values() if name != HOST)
        return f"{told}; running on {used} instead" if told else ""

    def _open(self, choice: Choice, device: str, simulation: "Simulation | None") -> OpenDevice:
        name = choice.bound[device]
        if simulation is not None:
            return simulation.open(name)
        alone = is_tiny(self._artifact.manifest, choice.plan)
        work = partial(open_device, name, synchronous=alone)
        return within(self._load_timeout, work, "open the device", name)

    def _go_on_without(self, programs: Programs, error: DeviceError, state: State | None) -> None:
        """Settle for a plan without the device that failed in a call, or raise `error`."""
        if error.code not in FAILURES:
            raise error
        with self._lock:
            if self.programs is not programs:
                return  # another thread has done it
            here = [device.name for device in self.devices.values() if device.name != HOST]
            names = [name for name in error.where.split(", ") if name in here]
            if self._strict or len(names) != 1:
                raise error
            told = self._settle({**self.failed, names[0]: error.message}, error)
            if state is not None and error.code in ("device-lost", "device-hung"):
                state.lose(names[0])
        warn(told)

    def _is_in_doubt(self, error: DeviceError) -> bool:
        """Whether one of several devices failed, and a call in steps would tell which."""
        one_of_several = ", " in error.where and error.code != "device-hung"
        return one_of_several and error.code in FAILURES and not self._strict

    def _passed_over(self, choice: Choice) -> str:
        """Why another plan than the preferred one is loaded; strict raises it."""
        if not choice.passed_over or self._wanted is not None:
            return ""
        reason = "; ".join(choice.passed_over)
        if self._strict:
            raise DeviceError(
                f"the preferred plan cannot run: {reason}",
                code="plan-not-available",
                where=str(self._artifact.path),
                hint="make the device available, or load without strict",
            )
        return reason


def _made_room(error: DeviceError, make_room: MakeRoom) -> bool:
    """Whether what is full was so by several calls at once, which are done now."""
    made, left = make_room() if error.code == "out-of-memory" else (False, 0)
    if left:
        warn(f"{error.message}; {left} at once from now on")
    return made


def _took_too_long(device: str, seconds: float, state: State | None) -> BudgetError:
    lost = state is not None and state.lost
    return BudgetError(
        f"the call took longer than {seconds:g} s, and waits for {device}"
        + ("; it was updating the state of the session, which is lost" if lost else ""),
        code="call-timeout",
        where=device,
        hint="continue with session.reset() or session.load_state(...)"
        if lost
        else "give it more time, or leave the device out with devices=",
    )


def _simulated(system: "SystemDescription | None") -> "Simulation | None":
    if system is None:
        return None
    from lemurc.runtime.simulation import Simulation

    return Simulation(system)


def warn(message: str) -> None:
    """Name the line of the user's that loads or calls, however far away it is."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("lemurc."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, LemurcWarning, stacklevel=level)
