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
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from lemurc.errors import UsageError
from lemurc.manifest import RANDOM_STATE, Plan
from lemurc.runtime import loans
from lemurc.runtime.arguments import Arguments
from lemurc.runtime.artifact import Artifact
from lemurc.runtime.async_calls import CLOSING_SECONDS, AsyncCalls
from lemurc.runtime.attempt import Attempt
from lemurc.runtime.call import Issue
from lemurc.runtime.deployment import Deployment, warn
from lemurc.runtime.devices import OpenDevice
from lemurc.runtime.placement import Placement
from lemurc.runtime.program import issue_plainly
from lemurc.runtime.report import placement_of
from lemurc.runtime.signature import Signature
from lemurc.runtime.state import State
from lemurc.runtime.stream import (
    Begun,
    InFlight,
    as_arguments,
    automatic_depth,
    checked_depth,
    in_order,
)
from lemurc.user_modules import import_modules

if TYPE_CHECKING:
    from lemurc.runtime.profile import StepTimes
    from lemurc.runtime.recorder import Recorder
    from lemurc.system_file import SimulatedDevice, SystemDescription

_nothing = contextlib.nullcontext()


def load(
    path: str | os.PathLike[str],
    *,
    devices: Sequence[str] | None = None,
    strict: bool = False,
    check_weights: bool = True,
    imports: Sequence[str] = (),
    simulate: "str | os.PathLike[str] | SystemDescription | None" = None,
    timeout: float | None = None,
    load_timeout: float | None = None,
) -> "Session":
    """Open the artifact at `path` and load it on the devices that are here.

    An artifact of `lemurc.compile_training` gives a `Trainer`.

    `devices` restricts the choice: "cpu", "vulkan:0". When the preferred plan cannot
    run the next one does, with a LemurcWarning; `strict` makes that a DeviceError.
    `check_weights=False` skips the hash of the weights. `imports` are Python modules to import
    first: those that define the operators which the artifact leaves to PyTorch.
    `simulate` is a system.json, or what it says: the devices are then those it describes,
    simulated by this processor (docs/simulation.md).
    A call that takes longer than `timeout` seconds is given up with a BudgetError, and a device
    that goes on hanging is done without (docs/failures.md). So is one that takes longer than
    `load_timeout` seconds to be opened, or to load one of its stages.
    """
    import_modules([imports] if isinstance(imports, str) else imports)
    if isinstance(simulate, (str, os.PathLike)):
        from lemurc.system_file import read_system

        simulate = read_system(Path(simulate))
    artifact = Artifact.open(path, check_weights=check_weights)
    kind = Session
    if artifact.manifest.training is not None:
        from lemurc.runtime.trainer import Trainer

        kind = Trainer
    return kind(artifact, devices, strict, simulate, timeout, load_timeout)


def _checked_timeout(seconds: float | None) -> float | None:
    usable = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if seconds is None or (usable and 0 < seconds <= threading.TIMEOUT_MAX):
        return seconds
    raise UsageError(
        f"a timeout is a number of seconds above 0, or None, got {seconds!r}",
        code="bad-timeout",
        hint="leave it out: a call may then take as long as it likes",
    )


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
        simulate: "SystemDescription | None" = None,
        timeout: float | None = None,
        load_timeout: float | None = None,
    ) -> None:
        self.artifact = artifact
        self.manifest = artifact.manifest
        self._signatures = {
            name: Signature(name, function) for name, function in self.manifest.functions.items()
        }
        self._entries = {name: EntryPoint(self, name) for name in self.manifest.functions}
        self._state = State(artifact) if self.manifest.state else None
        self._serial = threading.RLock()
        self._async: AsyncCalls | None = None
        self._issue: Issue = issue_plainly
        self._closed = False
        self._process = os.getpid()
        wanted = [devices] if isinstance(devices, str) else devices
        limits = _checked_timeout(timeout), _checked_timeout(load_timeout)
        loans.settle()  # of sessions that were dropped, not closed
        self._deployment = Deployment(artifact, wanted, strict, simulate, *limits)

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
        _check_outputs(outputs)
        arguments = Arguments(self._signature(function), args, kwargs)
        on_device = outputs == "device"
        results, updates = self._run(function, arguments.arrays, on_device)
        return arguments.answer(results, updates, on_device)

    def run_async(self, *args: Any, function: str = "main", **kwargs: Any) -> "Future[Any]":
        """Queue a call; inputs are copied, so the caller may reuse them at once.

        Those that the model changes in place are changed when the result is there. A call that
        is cancelled, even while it runs, changes nothing.
        """
        arguments = Arguments(self._signature(function), args, kwargs)
        own = arguments.copied()

        def run(attempt: Attempt) -> Any:
            results, updates = self._run(function, own, False, attempt)
            return arguments.answer(results, updates, False)

        if self._async is None:
            with self._serial:
                workers = 1 if self._state is not None else 4
                self._async = self._async or AsyncCalls(workers)
        return self._async.submit(run)

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
        requests are read ahead, and their arrays copied. "auto" follows the plan; where a device
        has no memory for so many there are fewer, with a LemurcWarning. Whatever goes wrong with
        a request, or in `requests`, is raised in its place and ends the stream; whoever leaves
        the loop waits only for what is in flight.

        One call runs at a time where one needs what another leaves: a model with state, or one
        that changes its arguments; and on Vulkan devices, which take one call at a time.
        """
        in_flight = self.stream_depth(function, depth)
        _check_outputs(outputs)
        on_device = outputs == "device"

        def one(request: Any, flight: InFlight) -> Begun:
            args, kwargs = as_arguments(request)
            return Begun(lambda: self.call(function, args, kwargs, outputs), lambda: None)

        def several(request: Any, flight: InFlight) -> Begun:
            args, kwargs = as_arguments(request)
            arguments = Arguments(self._signature(function), args, kwargs)
            here, room = self._deployment, flight.make_room
            begun = here.begin(function, arguments.copied(), on_device, self._issue, room)

            def result() -> Any:
                results = here.finish(function, begun, on_device, self._issue, room)
                return arguments.answer(results, {}, on_device)

            return Begun(result, lambda: here.abandon(begun))

        return in_order(requests, one if in_flight == 1 else several, in_flight)

    def stream_depth(self, function: str = "main", depth: int | str = "auto") -> int:
        """How many calls of `function` a stream of that depth has in flight."""
        signature = self._signature(function)
        wanted = checked_depth(depth)
        vulkan = any(device.target == "vulkan" for device in self.open_devices)
        if self._state is not None or signature.updated or vulkan:
            return 1
        return wanted or automatic_depth(self.plan, function)

    @property
    def timeout(self) -> float | None:
        """How many seconds a call may take, from when it begins; None: as long as it likes."""
        return self._deployment.timeout

    @timeout.setter
    def timeout(self, seconds: float | None) -> None:
        self._deployment.timeout = _checked_timeout(seconds)

    def _run(
        self, function: str, arrays: list[Any], on_device: bool, attempt: Attempt | None = None
    ) -> tuple[list[Any], dict[int, Any]]:
        with self._serial if self._state is not None else _nothing:
            return self._deployment.run(
                function, arrays, self._state, on_device, self._issue, attempt
            )

    def measured(self, function: str, arrays: list[Any], issue: Issue) -> None:
        """One call that `issue` issues the operations of; see runtime/profile.py."""
        self._check_open()
        with self._serial:
            self._deployment.programs[function].run(arrays, self._state, False, issue)

    @contextlib.contextmanager
    def recorded(self) -> "Iterator[Recorder]":
        """What the calls made inside the block do, operation by operation; see
        runtime/recorder.py. Calls are as asynchronous as ever."""
        from lemurc.runtime.recorder import Recorder

        self._check_open()
        with Recorder(p.laid_out for p in self._deployment.programs.values()) as recorder:
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
        twin = type(self).__new__(type(self))
        with self._serial:
            twin.__dict__.update(self.__dict__)
            # Closing one session must leave the other its weights.
            twin.artifact = copy.copy(self.artifact)
            twin._deployment = self._deployment.copy(twin.artifact)
            twin._state = self._state.copy(twin.artifact) if self._state is not None else None
        twin._entries = {name: EntryPoint(twin, name) for name in self.manifest.functions}
        twin._serial = threading.RLock()
        twin._async = None
        return twin

    # What runs where

    @property
    def functions(self) -> tuple[str, ...]:
        return tuple(self.manifest.functions)

    @property
    def plan(self) -> Plan:
        return self._deployment.choice.plan

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(device.name for device in self.open_devices)

    @property
    def open_devices(self) -> tuple[OpenDevice, ...]:
        """The devices of the plan, in its order."""
        return tuple(self._deployment.devices.values())

    @property
    def placement(self) -> dict[str, Placement]:
        """What runs where, for each function."""
        here = self._deployment
        return {
            name: placement_of(self.manifest, here.choice, name, here.devices, here.executors)
            for name in self.manifest.functions
        }

    @property
    def failed(self) -> dict[str, str]:
        """The devices that failed and are done without, and why."""
        return dict(self._deployment.failed)

    @property
    def simulated(self) -> "tuple[SimulatedDevice, ...]":
        """The devices that are simulated, with the memory they needed so far; mostly none."""
        simulation = self._deployment.simulation
        return simulation.report() if simulation is not None else ()

    def placement_line(self, function: str | None = None) -> str:
        """One line of `placement`: `cuda:0 391/412 ops, 96% of predicted time; ...`.

        It ends with devices that failed, and with what is simulated, if anything is.
        """
        name = function or ("main" if "main" in self.manifest.functions else self.functions[0])
        line = self.placement[name].line()
        if self.failed:
            line = f"{line}; without {', '.join(self.failed)}, which failed"
        simulation = self._deployment.simulation
        return line if simulation is None else f"{line}; {simulation.line()}"

    # Ending

    def close(self) -> None:
        """Let go of code, weights and state, when calls in progress have ended. Results stay
        valid; closing twice is fine.

        Calls of which none ends within 30 seconds are left behind, with a LemurcWarning.
        """
        self._closed = True
        ended = self._async is None or self._async.close()
        idle = self._serial.acquire(timeout=CLOSING_SECONDS if ended else 0.0)
        if idle:
            self._serial.release()
        self._deployment.close()
        self._state = None
        self.artifact.close()
        loans.settle()
        if not (ended and idle):
            warn(f"the session was closed while a call on {', '.join(self.devices)} did not end")

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
