"""`lemurc.probe`: measure the devices here and the links between them.

Where there is a compiler the programs that are timed are compiled once and kept in the
cache; a machine with the runtime alone takes them from an artifact made elsewhere.
"""

import dataclasses
import importlib.util
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lemurc import __version__
from lemurc.errors import DeviceError, UsageError
from lemurc.runtime.machine import available_cores, processor_name, worker_threads
from lemurc.system_file import DeviceDescription, Provenance, SystemDescription, write_system
from lemurc.targets.cache import own_system_path


@dataclass(frozen=True)
class ProbeResult:
    """`path` is where the description was written; `skipped` says which kinds of device were
    not measured, and why. After an export there is no `system`, and `path` is the artifact."""

    path: str
    system: SystemDescription | None
    seconds: float
    skipped: dict[str, str]


def probe(
    output: str | os.PathLike[str] | None = None,
    *,
    quick: bool = False,
    targets: str | None = None,
    export: str | os.PathLike[str] | None = None,
    programs: str | os.PathLike[str] | None = None,
    report: Callable[[str], None] = lambda doing: None,
) -> ProbeResult:
    """Measure every device here that there is code for, and every link between them.

    The description goes to `output`, or to the cache, where `lemurc.compile` finds it.
    `targets` limits what is measured or, with `export`, says what the programs are compiled
    for; `programs` is an artifact that `export` wrote. `quick` takes a few seconds and knows
    two element types. UsageError for paths and targets that cannot be, DeviceError when no
    device can be measured.
    """
    begin = time.perf_counter()
    if export is not None:
        return _export(Path(export), targets or "cpu", quick, begin)
    destination = Path(output) if output is not None else own_system_path()
    if output is not None and not destination.absolute().parent.is_dir():
        raise UsageError(
            f"cannot write {destination}: {destination.parent} is no folder",
            code="unwritable-output",
            where=str(destination),
            hint="choose another --output",
        )
    from lemurc.runtime.devices import DRIVERS, discover

    found = discover(DRIVERS)
    kinds = [kind for kind, names in found.names.items() if names and kind != "vmvx"]
    wanted = {part.partition(":")[0].strip() for part in targets.split(",")} if targets else None
    kinds = [kind for kind in kinds if wanted is None or kind in wanted]
    path = Path(programs) if programs is not None else _compiled(kinds, quick)
    system = _measure(path, found.names, kinds, quick, report)
    destination.parent.mkdir(parents=True, exist_ok=True)
    write_system(destination, system)
    measured = {device.target for device in system.devices}
    skipped = {
        kind: found.why_not.get(kind) or f"{path} has no code for it"
        for kind in found.names
        if kind not in measured and kind != "vmvx" and (wanted is None or kind in wanted)
    }
    return ProbeResult(str(destination), system, time.perf_counter() - begin, skipped)


def _measure(
    path: Path,
    names: dict[str, tuple[str, ...]],
    kinds: list[str],
    quick: bool,
    report: Callable[[str], None],
) -> SystemDescription:
    from lemurc.runtime import probe as measuring
    from lemurc.runtime.artifact import Artifact
    from lemurc.runtime.devices import Inventory

    effort = measuring.QUICK if quick else measuring.THOROUGH
    with Artifact.open(path) as artifact:
        here = Inventory({kind: names[kind] for kind in kinds})
        chosen = measuring.probed_devices(artifact, here)
        if not chosen:
            raise DeviceError(
                "no device here can be measured",
                code="no-device",
                where=str(path),
                hint="export the programs for a target that `lemurc devices` lists",
            )
        devices = [measuring.measure_device(artifact, name, effort, report) for name in chosen]
        links = measuring.measure_links(chosen, effort, report)
    return SystemDescription(
        devices=tuple(_with_threads(device) for device in devices),
        links=tuple(links),
        provenance=Provenance(
            made_by=f"lemurc {__version__} probe{' --quick' if quick else ''}",
            date=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            processor=processor_name(),
            cores=available_cores(),
            method="medians after two runs of warm-up, without waiting for a processor; "
            "a link's latency is the time of 4 KiB",
        ),
    )


def _with_threads(device: DeviceDescription) -> DeviceDescription:
    threads = worker_threads() if device.target == "cpu" else 0
    return dataclasses.replace(device, threads=threads or None)


def _compiled(kinds: list[str], quick: bool) -> Path:
    if importlib.util.find_spec("torch_mlir") is None:
        raise UsageError(
            "there is no compiler here to make the programs that are timed",
            code="probe-needs-programs",
            hint="make them elsewhere with `lemurc probe --export probe.lemur --targets "
            f"{','.join(kinds)}`, and measure with `lemurc probe --with probe.lemur`",
        )
    from lemurc.probe_programs import cached
    from lemurc.targets.registry import get, parse_targets

    def spelled(kind: str) -> str:
        return f"{kind}:host" if get(kind).resolve is not None else kind

    return cached(parse_targets(",".join(spelled(kind) for kind in kinds)), quick)


def _export(path: Path, targets: str, quick: bool, begin: float) -> ProbeResult:
    if not path.absolute().parent.is_dir() or path.is_dir():
        raise UsageError(
            f"cannot write {path}",
            code="unwritable-output",
            where=str(path),
            hint="name a file in a folder that is there",
        )
    from lemurc.probe_programs import export
    from lemurc.targets.registry import parse_targets

    manifest = export(path, parse_targets(targets), quick)
    absent = {
        key.removeprefix("absent "): why
        for key, why in manifest.producer.items()
        if key.startswith("absent ")
    }
    return ProbeResult(str(path), None, time.perf_counter() - begin, absent)
