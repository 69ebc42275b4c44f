"""`lemurc.bench`: how long a call takes, and on what.

Calls are timed one after another from NumPy inputs to NumPy outputs, so transfers count.
The first calls are thrown away: they pay for page faults, clocks and driver set-up.
"""

import dataclasses
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lemurc.errors import InputError
from lemurc.runtime.machine import available_cores, processor_name, worker_threads
from lemurc.system_file import SimulatedDevice, SystemDescription, read_system
from lemurc.tools.call import as_request, call, choose_function, choose_inputs


@dataclass(frozen=True)
class StepTiming:
    """One stage on its device, in seconds, while nothing else of the call runs.

    `measured` is the least of several calls, less the time that other programs had the
    processors, where the operating system tells; `wall` is the median of plain wall time.
    """

    stage: str
    device: str
    predicted: float | None
    measured: float
    wall: float


@dataclass(frozen=True)
class StreamTiming:
    """Requests that `session.stream` answered, up to `depth` of them in flight."""

    depth: int
    requests: int
    per_second: float


@dataclass(frozen=True)
class Timing:
    """Seconds per call; `throughput` is calls per second over the whole measurement.

    `predicted` is what the cost model expected of a call, and `steps` compares it with what
    each stage takes by itself; `mean_error` is the mean of the steps' relative errors. They
    are null where the artifact has no prediction.
    `restarts` counts how often the state was reset, since the model takes no further call from
    where it had come to: a cache was full. The call after it brings the state to the devices.
    `simulated` are the devices that were none, and the memory they needed.
    """

    devices: tuple[str, ...]
    placement: str
    calls: int
    median: float
    p90: float
    minimum: float
    maximum: float
    throughput: float
    predicted: float | None = None
    steps: tuple[StepTiming, ...] = ()
    mean_error: float | None = None
    restarts: int = 0
    simulated: tuple[SimulatedDevice, ...] = ()
    stream: StreamTiming | None = None


@dataclass(frozen=True)
class BenchResult:
    """`threads` are the CPU workers the runtime started; a tiny graph runs without any. A
    simulated device has one."""

    function: str
    inputs_from: str
    shapes: tuple[str, ...]
    processor: str
    cores: int
    threads: int
    timings: tuple[Timing, ...]


def bench(
    path: str | Path,
    *,
    inputs: Sequence[str] = (),
    devices: Sequence[str] | None = None,
    function: str | None = None,
    warmup: int = 5,
    iterations: int | None = None,
    duration: float = 3.0,
    per_device: bool = False,
    strict: bool = False,
    imports: Sequence[str] = (),
    simulate: str | Path | SystemDescription | None = None,
    stream: bool = False,
) -> BenchResult:
    """Time `function` of `path`: `iterations` calls, or as many as fit into `duration`.

    `per_device` measures each of the devices alone, after all of them together. `imports`
    and `simulate` are those of `lemurc.load`. `stream` also measures a stream of requests,
    of which several are in flight.
    """
    from lemurc.runtime.artifact import Artifact
    from lemurc.runtime.placement import targets_of

    with Artifact.open(path, check_weights=False) as artifact:
        name = choose_function(artifact.manifest, function)
        source, arrays, _ = choose_inputs(artifact, name, inputs)
        targets = {m.target for s in artifact.manifest.stages.values() for m in s.modules}
        targets |= set(targets_of(artifact.manifest))  # what computes nothing has no modules

    def measure(names: Sequence[str] | None) -> Timing:
        import lemurc

        with lemurc.load(
            path, devices=names, strict=strict, imports=imports, simulate=simulate
        ) as session:
            runner = _Runner(session, name, arrays)
            times = _time(runner, warmup, iterations, duration)
            steps = _steps(session, name, arrays, iterations, duration)
            streamed = None
            if stream and session.manifest.functions[name].state_updates:
                # one at a time, which is what was timed
                streamed = StreamTiming(1, len(times), len(times) / sum(times))
            elif stream:
                streamed = _stream(session, name, arrays, iterations, duration)
            predicted = session.plan.predicted.get(name)
            timing = _timing(tuple(names or ()), session.placement_line(name), times)
            return dataclasses.replace(
                timing,
                predicted=None if predicted is None else predicted.seconds,
                steps=steps,
                mean_error=_mean_error(steps),
                restarts=runner.restarts,
                simulated=session.simulated,
                stream=streamed,
            )

    if isinstance(simulate, (str, Path)):
        simulate = read_system(simulate)
    timings = [measure(devices)]
    if per_device:
        here = _present(targets) if simulate is None else [d.name for d in simulate.devices]
        timings += [measure([device]) for device in devices or here]
    return BenchResult(
        function=name,
        inputs_from=source,
        shapes=tuple(f"{a.dtype}{list(a.shape)}" for a in arrays),
        processor=processor_name(),
        cores=available_cores(),
        threads=max((len(t.simulated) for t in timings), default=0) or worker_threads(),
        timings=tuple(timings),
    )


class _Runner:
    """Calls one function again and again; from the initial state where it takes no more."""

    def __init__(self, session: Any, name: str, arrays: Sequence[Any]) -> None:
        self.restarts = 0
        self._session, self._name, self._arrays = session, name, arrays
        self._entry = session.manifest.functions[name]

    def seconds(self) -> float:
        try:
            return self._timed()
        except InputError as error:
            if error.code != "check-failed" or not self._entry.state_updates:
                raise
        self._session.reset()
        self.restarts += 1
        return self._timed()  # where it fails too, the state was not the reason

    def _timed(self) -> float:
        start = time.perf_counter()
        call(self._session, self._name, self._entry, self._arrays)
        return time.perf_counter() - start


def _time(runner: _Runner, warmup: int, iterations: int | None, duration: float) -> list[float]:
    for _ in range(warmup):
        runner.seconds()
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < iterations if iterations else time.perf_counter() - begin < duration:
        times.append(runner.seconds())
    return times


def _stream(
    session: Any, name: str, arrays: Sequence[Any], iterations: int | None, duration: float
) -> StreamTiming:
    """Timed from when the devices are busy: the first `depth` results are thrown away."""
    depth = session.stream_depth(name)
    request = as_request(session.manifest.functions[name], arrays)
    results = session.stream(itertools.repeat(request), function=name)
    for _ in range(depth):
        next(results)
    begin = time.perf_counter()
    count, elapsed = 0, 0.0
    while count < iterations if iterations else elapsed < duration:
        next(results)
        count, elapsed = count + 1, time.perf_counter() - begin
    results.close()
    return StreamTiming(depth, count, count / elapsed)


def _steps(
    session: Any, name: str, arrays: Sequence[Any], iterations: int | None, duration: float
) -> tuple[StepTiming, ...]:
    timed = session.step_times(name, arrays, calls=iterations or 50, limit=duration)
    predicted = session.plan.predicted.get(name)
    expected = list(predicted.seconds_by_step) if predicted is not None else []
    known = expected if len(expected) == len(timed) else [None] * len(timed)
    return tuple(
        StepTiming(step.step.stage, step.device, seconds, step.minimum, float(np.median(step.wall)))
        for step, seconds in zip(timed, known, strict=True)
    )


def _mean_error(steps: Sequence[StepTiming]) -> float | None:
    errors = [abs(s.predicted / s.measured - 1) for s in steps if s.predicted is not None]
    return sum(errors) / len(errors) if errors else None


def _timing(devices: tuple[str, ...], placement: str, times: Sequence[float]) -> Timing:
    return Timing(
        devices=devices,
        placement=placement,
        calls=len(times),
        median=float(np.median(times)),
        p90=float(np.percentile(times, 90)),
        minimum=min(times),
        maximum=max(times),
        throughput=len(times) / sum(times),
    )


def _present(targets: set[str]) -> list[str]:
    from lemurc.tools.devices import devices

    return [device.name for device in devices().devices if device.target in targets]
