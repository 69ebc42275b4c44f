"""Running an artifact.

    session = lemurc.load("model.lemur")
    y = session(x)                      # function `main`
    y = session.prefill(tokens)         # any other entry point

NumPy in, NumPy out; torch tensors in, torch tensors out; DLPack objects in.
"""

import contextlib
import copy
import os
import threading
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from lemurc.errors import DeviceError, UsageError
from lemurc.manifest import HOST, RANDOM_STATE, Plan
from lemurc.pytree import unflatten
from lemurc.runtime.artifact import Artifact
from lemurc.runtime.boundary import to_arrays, to_torch
from lemurc.runtime.devices import OpenDevice, open_device
from lemurc.runtime.input_updates import write_back
from lemurc.runtime.iree_errors import FAILURES
from lemurc.runtime.layout import compile_program
from lemurc.runtime.placement import Choice, LemurcWarning, Placement, choose
from lemurc.runtime.program import Issue, Program, issue_plainly
from lemurc.runtime.report import placement_of
from lemurc.runtime.signature import Signature
from lemurc.runtime.simulation import Simulation
from lemurc.runtime.stages import is_tiny, load_stages
from lemurc.runtime.state import State
from lemurc.runtime.stream import Begun, as_arguments, automatic_depth, checked_depth, in_order
from lemurc.system_file import SimulatedDevice, SystemDescription, read_system
from lemurc.user_modules import import_modules

if TYPE_CHECKING:
    from lemurc.runtime.profile import StepTimes
    from lemurc.runtime.recorder import Recorder

_nothing = contextlib.nullcontext()


def load(
    path: str | os.PathLike[str],
    *,
    devices: Sequence[str] | None = None,
    strict: bool = False,
    check_weights: bool = True,
    imports: Sequence[str] = (),
    simulate: str | os.PathLike[str] | SystemDescription | None = None,
) -> "Session":
    """Open the artifact at `path` and load it on the devices that are here.

    `devices` restricts the choice: "cpu", "vulkan:0". When the preferred plan cannot
    run the next one does, with a LemurcWarning; `strict` makes that a DeviceError.
    `check_weights=False` skips the hash of the weights. `imports` are Python modules to import
    first: those that define the operators which the artifact leaves to PyTorch.
    `simulate` is a system.json, or what it says: the devices are then those it describes,
    simulated by this processor (docs/simulation.md).
    """
    import_modules([imports] if isinstance(imports, str) else imports)
    if isinstance(simulate, (str, os.PathLike)):
        simulate = read_system(Path(simulate))
    artifact = Artifact.open(path, check_weights=check_weights)
    return Session(artifact, devices, strict, simulate)


def _check_outputs(outputs: str | None) -> None:
    if outputs not in (None, "device"):
        raise UsageError(f'outputs must be "device" or None, got {outputs!r}')


class EntryPoint:
    """A function of the artifact, bound to a session; call it."""

    def __init__(self, session: "Session", name: str) -> None:
        self._session = session
        self._name = name

    def __call__(self, *args: Any, outputs: str | None = None, **kwargs: Any) -> Any:
        return self._session.call(self._name, args, kwargs, outputs)


class Session:
    """An artifact on devices, with state of its own. Calls may come from any thread;
    those of a model with state run one after the other."""

    def __init__(
        self,
        artifact: Artifact,
        devices: Sequence[str] | None = None,
        strict: bool = False,
        simulate: SystemDescription | None = None,
    ) -> None:
        self.artifact = artifact
        self.manifest = artifact.manifest
        self._wanted = [devices] if isinstance(devices, str) else devices
        self._strict = strict
        self._simulate = simulate
        self._failed: frozenset[str] = frozenset()
        self._signatures = {
            name: Signature(name, function) for name, function in self.manifest.functions.items()
        }
        self._entries = {name: EntryPoint(self, name) for name in self.manifest.functions}
        self._state = State(artifact) if self.manifest.state else None
        self._serial = threading.RLock()
        self._pool: ThreadPoolExecutor | None = None
        self._issue = issue_plainly
        self._closed = False
        self._process = os.getpid()
        self._settle()

    # Calling

    def __call__(self, *args: Any, outputs: str | None = None, **kwargs: Any) -> Any:
        return self.call("main", args, kwargs, outputs)

    def __getattr__(self, name: str) -> Any:
        entries = self.__dict__.get("_entries", {})
        if name in entries:
            return entries[name]
        raise AttributeError(
            f"this session has no attribute {name!r}; its functions are {', '.join(entries)}"
        )

    def call(
        self, function: str, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: str | None
    ) -> Any:
        """Run `function`; with outputs="device" results stay where they were computed.

        Arguments that the model changes in place are changed in place, after a call that
        went well: the caller's array or tensor, whatever its strides.
        """
        signature = self._signature(function)
        _check_outputs(outputs)
        leaves = signature.bind(args, kwargs)
        arrays, torch_device = to_arrays(leaves, signature.function.inputs, signature.dtypes)
        signature.check(arrays)
        on_device = outputs == "device"
        if signature.updated:
            signature.check_writable(leaves, arrays)
        if self._state is None:
            results, updates = self._run(function, arrays, on_device)
        else:
            with self._serial:
                results, updates = self._run(function, arrays, on_device)
        if updates:
            write_back(leaves, updates)
        if torch_device is not None and not on_device:
            results = [to_torch(result, torch_device) for result in results]
        return unflatten(signature.function.out_tree, results)

    def run_async(self, *args: Any, function: str = "main", **kwargs: Any) -> "Future[Any]":
        """Queue a call; inputs are copied, so the caller may reuse them at once.

        Those that the model changes in place are changed when the result is there.
        """
        signature = self._signature(function)
        leaves = signature.bind(args, kwargs)
        arrays, torch_device = to_arrays(leaves, signature.function.inputs, signature.dtypes)
        signature.check(arrays)
        if signature.updated:
            signature.check_writable(leaves, arrays)
        own = [array.copy() if isinstance(array, np.ndarray) else array for array in arrays]

        def run() -> Any:
            with self._serial if self._state is not None else _nothing:
                results, updates = self._run(function, own, False)
            write_back(leaves, updates)
            if torch_device is not None:
                results = [to_torch(result, torch_device) for result in results]
            return unflatten(signature.function.out_tree, results)

        if self._pool is None:
            with self._serial:
                workers = 1 if self._state is not None else 4
                self._pool = self._pool or ThreadPoolExecutor(workers, "lemurc")
        return self._pool.submit(run)

    def stream(
        self,
        requests: Iterable[tuple[Any, ...] | dict[str, Any]],
        *,
        depth: int | str = "auto",
        function: str = "main",
        outputs: str | None = None,
    ) -> Generator[Any, None, None]:
        """The result of each of `requests`, in order: argument tuples, or dicts of keywords.

        Up to `depth` calls are in flight, so that every device of the plan is busy; that many
        requests are read ahead, and their arrays copied. "auto" follows the plan. Whatever goes
        wrong with a request, or in `requests`, is raised in its place and ends the stream;
        whoever leaves the loop waits only for what is in flight.

        One call runs at a time where one needs what another leaves: a model with state, or one
        that changes its arguments; and on Vulkan devices, which take one call at a time.
        """
        in_flight = self.stream_depth(function, depth)
        _check_outputs(outputs)

        def one(request: Any) -> Begun:
            args, kwargs = as_arguments(request)
            return Begun(lambda: self.call(function, args, kwargs, outputs), lambda: None)

        def several(request: Any) -> Begun:
            args, kwargs = as_arguments(request)
            return self._begin(function, args, kwargs, outputs == "device")

        return in_order(requests, one if in_flight == 1 else several, in_flight)

    def stream_depth(self, function: str = "main", depth: int | str = "auto") -> int:
        """How many calls of `function` a stream of that depth has in flight."""
        signature = self._signature(function)
        wanted = checked_depth(depth)
        vulkan = any(device.target == "vulkan" for device in self._devices.values())
        if self._state is not None or signature.updated or vulkan:
            return 1
        return wanted or automatic_depth(self.plan, function)

    def _begin(
        self, function: str, args: tuple[Any, ...], kwargs: dict[str, Any], on_device: bool
    ) -> Begun:
        """Queue a call of a model without state."""
        signature = self._signature(function)
        leaves = signature.bind(args, kwargs)
        arrays, torch_device = to_arrays(leaves, signature.function.inputs, signature.dtypes)
        signature.check(arrays)
        own = [array.copy() if isinstance(array, np.ndarray) else array for array in arrays]
        while True:
            programs = self._programs
            program = programs[function]
            try:
                call = program.begin(own, None, on_device, self._issue)
                break
            except DeviceError as error:
                if error.code not in FAILURES:
                    raise
                self._abandon(programs, error)

        def result() -> Any:
            try:
                call.wait()
                results, _ = program.finish(call, on_device)
            except DeviceError as error:
                if error.code not in FAILURES:
                    raise
                self._abandon(programs, error)
                results, _ = self._run(function, own, on_device)
            if torch_device is not None and not on_device:
                results = [to_torch(result, torch_device) for result in results]
            return unflatten(signature.function.out_tree, results)

        return Begun(result, call.wait)

    def _run(
        self, function: str, arrays: list[Any], on_device: bool
    ) -> tuple[list[Any], dict[int, Any]]:
        while True:
            programs = self._programs
            try:
                return programs[function].run(arrays, self._state, on_device, self._issue)
            except DeviceError as error:
                if error.code not in FAILURES:
                    raise
                self._abandon(programs, error)

    def measured(self, function: str, arrays: list[Any], issue: Issue) -> None:
        """One call that `issue` issues the operations of; see runtime/profile.py."""
        self._check_open()
        with self._serial:
            self._programs[function].run(arrays, self._state, False, issue)

    @contextlib.contextmanager
    def recorded(self) -> "Iterator[Recorder]":
        """What the calls made inside the block do, operation by operation; see
        runtime/recorder.py. Calls are as asynchronous as ever."""
        from lemurc.runtime.recorder import Recorder

        self._check_open()
        with Recorder(self._programs.values()) as recorder:
            self._issue = recorder.issue
            try:
                yield recorder
            finally:
                self._issue = issue_plainly

    def step_times(
        self, function: str, arrays: Sequence[Any], *, calls: int = 50, limit: float = 10.0
    ) -> "list[StepTimes]":
        """What each step of the plan takes, by itself: `calls` calls, or `limit` seconds of
        them. `arrays` are checked, flat inputs."""
        from lemurc.runtime.profile import step_times

        return step_times(self, function, arrays, calls=calls, limit=limit)

    # State

    def state(self) -> dict[str, np.ndarray]:
        """A copy of every state variable."""
        with self._serial:
            return self._state.arrays() if self._state is not None else {}

    def load_state(self, values: dict[str, np.ndarray]) -> None:
        """Continue from what `state()` returned, here or in another session."""
        with self._serial:
            if self._state is not None:
                self._state.load(values)
            elif values:
                raise UsageError("this model has no state to load")

    def reset(self, seed: int | None = None) -> None:
        """Back to the state the model was compiled with; random numbers start at `seed`.

        UsageError when there is a seed and the model draws no random numbers.
        """
        with self._serial:
            if seed is not None and RANDOM_STATE not in self.manifest.state:
                raise UsageError(
                    "this model draws no random numbers",
                    code="nothing-random",
                    hint="call reset() without a seed",
                )
            if self._state is not None:
                self._state.reset(seed)

    def copy(self) -> "Session":
        """A session that shares code and weights and continues on its own from here."""
        self._check_open()
        twin = Session.__new__(Session)
        with self._serial:
            twin.__dict__.update(self.__dict__)
            # Closing one session must leave the other its weights.
            twin.artifact = copy.copy(self.artifact)
            twin._state = self._state.copy(twin.artifact) if self._state is not None else None
        twin._entries = {name: EntryPoint(twin, name) for name in self.manifest.functions}
        twin._serial = threading.RLock()
        twin._pool = None
        return twin

    # What runs where

    @property
    def functions(self) -> tuple[str, ...]:
        return tuple(self.manifest.functions)

    @property
    def plan(self) -> Plan:
        return self._choice.plan

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(device.name for device in self._devices.values())

    @property
    def open_devices(self) -> tuple[OpenDevice, ...]:
        """The devices of the plan, in its order."""
        return tuple(self._devices.values())

    @property
    def placement(self) -> dict[str, Placement]:
        """What runs where, for each function."""
        return {
            name: placement_of(self.manifest, self._choice, name, self._devices, self._executors)
            for name in self.manifest.functions
        }

    @property
    def simulated(self) -> tuple[SimulatedDevice, ...]:
        """The devices that are simulated, with the memory they needed so far; mostly none."""
        return self._simulation.report() if self._simulation is not None else ()

    def placement_line(self, function: str | None = None) -> str:
        """One line of `placement`: `cuda:0 391/412 ops, 96% of predicted time; ...`.

        It ends with what is simulated, if anything is.
        """
        name = function or ("main" if "main" in self.manifest.functions else self.functions[0])
        line = self.placement[name].line()
        return line if self._simulation is None else f"{line}; {self._simulation.line()}"

    # Loading

    def _settle(self) -> None:
        """Load the best plan that works here, passing over devices that fail."""
        while True:
            self._simulation = Simulation(self._simulate) if self._simulate is not None else None
            self._choice = (
                choose(self.manifest, self._wanted, self._failed)
                if self._simulation is None
                else self._simulation.choose(self.manifest, self._wanted, self._failed)
            )
            self._tell(self._choice)
            opened: OpenDevice | None = None
            try:
                self._devices = {}
                for device in self._choice.plan.devices:
                    opened = self._open(self._choice.bound[device.name])
                    self._devices[device.name] = opened
                self._executors = load_stages(self.artifact, self._choice.plan, self._devices)
                if self._simulation is not None:
                    self._simulation.loaded(self._executors.values())
                break
            except DeviceError as error:
                name = error.where if error.where in self._choice.bound.values() else ""
                if self._strict or not name:
                    raise
                self._failed |= {name}
                self._warn(error.message)
        self._programs: dict[str, Program] = {
            name: compile_program(
                self.artifact, function, self._choice.plan.steps[name], self._devices,
                self._executors, self._simulation,
            )
            for name, function in self.manifest.functions.items()
        }  # fmt: skip

    def _open(self, name: str) -> OpenDevice:
        if self._simulation is not None:
            return self._simulation.open(name)
        return open_device(name, synchronous=is_tiny(self.manifest, self._choice.plan))

    def _abandon(self, programs: dict[str, Program], error: DeviceError) -> None:
        """Go on without the device that failed in a call, or raise `error`."""
        with self._serial:
            if self._programs is not programs:
                return  # another thread has done it
            names = [name for name in error.where.split(", ") if name in self.devices]
            if self._strict or len(names) != 1:
                raise error
            self._failed |= {names[0]}
            self._warn(error.message)
            self._settle()

    def _tell(self, choice: Choice) -> None:
        if not choice.passed_over or self._failed or self._wanted is not None:
            return
        reason = "; ".join(choice.passed_over)
        if self._strict:
            raise DeviceError(
                f"the preferred plan cannot run: {reason}",
                code="plan-not-available",
                where=str(self.artifact.path),
                hint="make the device available, or load without strict",
            )
        used = ", ".join(name for name in choice.bound.values() if name != HOST)
        self._warn(f"{reason}; running on {used} instead")

    def _warn(self, message: str) -> None:
        warnings.warn(message, LemurcWarning, stacklevel=6)

    # Ending

    def close(self) -> None:
        """Let go of code, weights and state. Results stay valid; closing twice is fine."""
        with self._serial:
            self._closed = True
            if self._pool is not None:
                self._pool.shutdown(wait=True)
            self._programs, self._executors, self._state = {}, {}, None
            self.artifact.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _signature(self, function: str) -> Signature:
        self._check_open()
        if function not in self._signatures:
            raise UsageError(
                f"this artifact has no function {function!r}",
                code="unknown-function",
                hint=f"its functions are {', '.join(self._signatures)}",
            )
        return self._signatures[function]

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError(
                "this session is closed",
                code="session-closed",
                hint="load the artifact again, or call before close() or the end of `with`",
            )
        if self._process != os.getpid():
            raise UsageError(
                "this session was loaded before the process forked, and its devices stayed "
                "with the parent",
                code="session-forked",
                hint="load the artifact in the child, or start workers with spawn",
            )
