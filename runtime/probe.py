"""Timing the programs of a probe artifact on every device, and transfers between devices.

All figures are medians after a warm-up, less the time that other programs had the
processors, where the operating system tells. One that cannot be measured is absent, with the
reason; none is taken from elsewhere.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from statistics import median
from typing import Any

import numpy as np
from iree.runtime import HalBufferView

from lemurc.errors import ArtifactError, LemurcError
from lemurc.manifest import TensorSpec
from lemurc.runtime import transport
from lemurc.runtime.artifact import Artifact
from lemurc.runtime.call import Call, Workspace
from lemurc.runtime.device_memory import memory_of
from lemurc.runtime.devices import Inventory, OpenDevice, Turns, open_device
from lemurc.runtime.element_types import element_type
from lemurc.runtime.executor import StageExecutor
from lemurc.runtime.machine import ThreadTimes
from lemurc.runtime.operations import Move
from lemurc.runtime.placement import modules_for
from lemurc.runtime.stages import load_stage
from lemurc.runtime.timeline import Timeline
from lemurc.system_file import DeviceDescription, LinkDescription

MARK = "@"
"""Between the program and the target in the name of a stage."""


@dataclass(frozen=True)
class Effort:
    """How long to measure: `seconds` for each figure, `read` bytes of memory, the `sizes`
    of transfers."""

    seconds: float
    read: int
    sizes: tuple[int, ...]


QUICK = Effort(0.15, 64 << 20, (1 << 12, 1 << 18, 1 << 22))
THOROUGH = Effort(1.0, 256 << 20, (1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 26))

_LEAST_READ = 1 << 20
_GROWTH = 8

Report = Callable[[str], None]


def probed_devices(artifact: Artifact, found: Inventory) -> list[str]:
    """The devices here that the artifact has programs for."""
    targets = {name.partition(MARK)[2] for name in artifact.manifest.stages}
    if artifact.manifest.model != "probe" or not targets:
        raise ArtifactError(
            "this artifact holds no probe programs",
            code="no-probe-programs",
            where=str(artifact.path),
            hint="make one with `lemurc probe --export probe.lemur`",
        )
    return [name for target, names in found.names.items() if target in targets for name in names]


def measure_device(
    artifact: Artifact, name: str, effort: Effort, report: Report
) -> DeviceDescription:
    """Every figure of one device."""
    device = open_device(name)
    with Turns([device]):
        return _Figures(artifact, device, effort, report).measured()


def measure_links(names: Sequence[str], effort: Effort, report: Report) -> list[LinkDescription]:
    """Both ways between each two devices, by the very operations that plans use."""
    links = []
    for src, dst in itertools.permutations(names, 2):
        report(f"{src} to {dst}")
        times = {size: _transfer_time(src, dst, size, effort) for size in effort.sizes}
        smallest = min(times)
        latency = times.pop(smallest)
        rates = {
            str(size): size / max(seconds - latency, seconds / 10)
            for size, seconds in times.items()
        }
        links.append(LinkDescription(src, dst, latency, rates))
    return links


class _Figures:
    """The measurements of one device, in an order that lets a slow one skip large programs."""

    def __init__(
        self, artifact: Artifact, device: OpenDevice, effort: Effort, report: Report
    ) -> None:
        self._artifact = artifact
        self._device = device
        self._effort = effort
        self._report = report
        self._absent: dict[str, str] = {}
        self._arch = ""

    def measured(self) -> DeviceDescription:
        functions = sorted(self._artifact.manifest.functions, key=_by_size)
        flops: dict[str, float] = {}
        bandwidth: dict[str, float] = {}
        for name in functions:
            word, _, rest = name.partition("_")
            if word == "product":
                dtype, _, size = rest.partition("_")
                self._product(name, dtype, int(size), flops)
            elif word == "read":
                self._read(name, rest, bandwidth)
        launch, call = self._launches()
        memory, why = memory_of(self._device)
        if why:
            self._absent["memory"] = why
        return DeviceDescription(
            name=self._device.name,
            target=self._device.target,
            arch=self._arch,
            description=self._device.description,
            flops=flops,
            bandwidth=bandwidth,
            launch=launch,
            call=call,
            memory=memory,
            absent=self._absent,
        )

    def _product(self, name: str, dtype: str, size: int, flops: dict[str, float]) -> None:
        work = 2 * size**3
        known = flops.get(dtype)
        if known is not None and work / known > self._effort.seconds / 3:
            return  # a larger one would take too long to tell more
        if known is None and f"flops.{dtype}" in self._absent:
            return
        seconds = self._time(name, f"flops.{dtype}")
        if seconds is not None:
            flops[dtype] = max(flops.get(dtype, 0.0), work / seconds)

    def _read(self, name: str, dtype: str, bandwidth: dict[str, float]) -> None:
        """Of as much memory as there is time for: little of it fits into caches."""
        size = _LEAST_READ
        while True:
            seconds = self._time(name, f"bandwidth.{dtype}", size)
            if seconds is None:
                return
            bandwidth[dtype] = size / seconds
            if size >= self._effort.read or seconds * _GROWTH > self._effort.seconds:
                return
            size = min(size * _GROWTH, self._effort.read)

    def _launches(self) -> tuple[float | None, float | None]:
        """The time of one kernel more, and what is left of a call of one kernel."""
        longest = max(
            int(name.partition("_")[2])
            for name in self._artifact.manifest.functions
            if name.startswith("launches_")
        )
        one = self._time("launches_1", "launch")
        many = self._time(f"launches_{longest}", "launch")
        if one is None or many is None:
            return None, None
        launch = max(many - one, 0.0) / (longest - 1)
        return launch, max(one - launch, 0.0)

    def _time(self, name: str, figure: str, size: int = 0) -> float | None:
        """The median time of a program, or None when `figure` is absent, and why."""
        device, manifest = self._device, self._artifact.manifest
        self._report(f"{device.name} {name}")
        stage = manifest.stages.get(f"{name}{MARK}{device.target}")
        if stage is None:
            why = manifest.producer.get(f"absent {device.target}:{name}", "not in the artifact")
            self._absent[figure] = why
            return None
        if not modules_for(stage, device.target):
            self._absent[figure] = "the artifact has no code for this machine's architecture"
            return None
        try:
            executor = load_stage(self._artifact, name, stage, device)
            inputs = [self._input(spec, size) for spec in manifest.functions[name].inputs]
            seconds = _repeated(_Once(executor, device, inputs), self._effort.seconds)
        except LemurcError as error:
            self._absent[figure] = error.message
            return None
        self._arch = executor.module.arch
        return seconds

    def _input(self, spec: TensorSpec, size: int) -> Any:
        """Ones, on the device; a size left open is what `size` bytes need."""
        dtype = np.dtype(spec.dtype)
        fixed = [dim for dim in spec.shape if isinstance(dim, int)]
        rows = size // (prod(fixed) * dtype.itemsize)
        shape = tuple(dim if isinstance(dim, int) else rows for dim in spec.shape)
        array = np.ones(shape, dtype)
        element = element_type(spec.dtype)
        if self._device.is_host:
            return transport.host_view(array, self._device, element, True)[0]
        line = Timeline(self._device)
        view, _ = transport.upload(array, element, transport.Lane(), line, 0, True)
        line.wait()
        return view


def _by_size(name: str) -> tuple[str, int]:
    word, _, number = name.rpartition("_")
    return (word, int(number)) if number.isdigit() else (name, 0)


class _Once:
    """One execution of a loaded program, to its end."""

    def __init__(self, executor: StageExecutor, device: OpenDevice, inputs: list[Any]) -> None:
        self._executor = executor
        self._inputs = inputs
        self._line = Timeline(device)

    def __call__(self) -> None:
        line = self._line
        self._executor.submit(self._inputs, line.after((), line.value), line.advance())
        line.wait()


def _transfer_time(src: str, dst: str, size: int, effort: Effort) -> float:
    origin, target = open_device(src), open_device(dst)
    work = Workspace([origin, target])
    move = Move(0, 0, 1, 1, origin, target)
    element = element_type("int8")
    memory = transport.Lane().target(origin, size, True)
    view = HalBufferView(memory, (size,), element)

    def once() -> None:
        call = Call(2, (), None, work, False)
        call.views[0] = view
        move.issue(call)
        call.wait()

    with Turns([origin, target]):
        return _repeated(once, effort.seconds / len(effort.sizes))


def _repeated(once: Callable[[], None], limit: float, most: int = 200) -> float:
    """The median of as many runs as fit into `limit` seconds, at least three, or one where
    one takes longer than all of `limit`; two come before, and do not count."""
    begin = time.perf_counter()
    once()
    if time.perf_counter() - begin < limit:
        once()
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < most:
        before, start = ThreadTimes.now(), time.perf_counter()
        once()
        elapsed = time.perf_counter() - start
        times.append(elapsed - ThreadTimes.now().lost_since(before, elapsed))
        enough = len(times) >= 3 or times[0] > limit
        if enough and time.perf_counter() - begin > limit:
            break
    return median(times)
