"""`lemurc.run`: one call of an artifact, compared with its golden outputs when it can be."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lemurc.system_file import SimulatedDevice, SystemDescription
from lemurc.tools.call import Array, call, choose_function, choose_inputs, compare_outputs
from lemurc.tools.whole_files import check_writable
from lemurc.verification import Comparison


@dataclass(frozen=True)
class Output:
    """What is worth knowing of a result without printing it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    min: float | None
    mean: float | None
    max: float | None
    not_finite: int


@dataclass(frozen=True)
class RunResult:
    """`inputs_from` is "golden", "command line" or "drawn"; `seconds` are of the first call.

    `ok` is False when a golden output was not met. `simulated` are the devices that were none,
    `failed` those that the run went on without, and why.
    """

    ok: bool
    function: str
    placement: str
    inputs_from: str
    outputs: tuple[Output, ...]
    comparisons: tuple[Comparison, ...]
    load_seconds: float
    seconds: float
    saved: str | None = None
    simulated: tuple[SimulatedDevice, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)


def run(
    path: str | Path,
    *,
    inputs: Sequence[str] = (),
    devices: Sequence[str] | None = None,
    function: str | None = None,
    output: str | Path | None = None,
    strict: bool = False,
    imports: Sequence[str] = (),
    simulate: str | Path | SystemDescription | None = None,
    trace: str | Path | None = None,
    timeout: float | None = None,
    load_timeout: float | None = None,
) -> RunResult:
    """Load `path`, call `function` once and describe what came out.

    Without `inputs` (strings as on the command line) the golden ones are used and the
    outputs compared; an artifact without golden inputs gets drawn ones. `output` names
    an .npz file for the results, `trace` one for a trace of the call that Perfetto loads.
    `imports`, `simulate`, `timeout` and `load_timeout` are those of `lemurc.load`.
    """
    import lemurc

    if trace is not None:
        check_writable(trace)
    started = time.perf_counter()
    with lemurc.load(
        path,
        devices=devices,
        strict=strict,
        imports=imports,
        simulate=simulate,
        timeout=timeout,
        load_timeout=load_timeout,
    ) as session:
        loaded = time.perf_counter()
        manifest = session.manifest
        name = choose_function(manifest, function)
        entry = manifest.functions[name]
        source, arrays, expected = choose_inputs(session.artifact, name, inputs)
        before = time.perf_counter()
        if trace is None:
            results = call(session, name, entry, arrays)
            seconds = time.perf_counter() - before
        else:
            results, seconds = _traced(session, name, arrays, trace)
        compared = compare_outputs(manifest, entry, results, expected) if expected else []
        names = [spec.name for spec in entry.outputs]
        return RunResult(
            ok=all(comparison.ok for comparison in compared),
            function=name,
            placement=session.placement_line(name),
            inputs_from=source,
            outputs=tuple(_describe(n, y) for n, y in zip(names, results, strict=True)),
            comparisons=tuple(compared),
            load_seconds=loaded - started,
            seconds=seconds,
            saved=_save(output, names, results) if output else None,
            simulated=session.simulated,
            failed=session.failed,
        )


def _traced(
    session: Any, name: str, arrays: Sequence[Array], path: str | Path
) -> tuple[list[Array], float]:
    from lemurc.tools.recording import Recording

    with Recording(session) as recording, recording.call():
        results = call(session, name, session.manifest.functions[name], arrays)
    recording.write(path, name)
    return results, recording.calls[0].end - recording.calls[0].begin


def _describe(name: str, array: Array) -> Output:
    numbers = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    numbers = np.abs(numbers) if array.dtype.kind == "c" else numbers
    finite = numbers[np.isfinite(numbers)]
    low, mean, high = (
        (float(finite.min()), float(finite.mean()), float(finite.max()))
        if finite.size
        else (None, None, None)
    )
    bad = int(array.size - finite.size)
    return Output(name, str(array.dtype), array.shape, low, mean, high, bad)


def _save(path: str | Path, names: Sequence[str], results: Sequence[Any]) -> str:
    """An interrupted write leaves the old file, never half of the new one."""
    target = Path(path)
    partial = target.with_name(target.name + ".part")
    try:
        with open(partial, "wb") as file:
            np.savez(file, **dict(zip(names, results, strict=True)))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return str(target)
