"""`lemurc.verify`: does an artifact still give its golden outputs, here, on each device?"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lemurc.errors import ArtifactError, DeviceError, LemurcError
from lemurc.manifest import Manifest
from lemurc.tools.call import Golden, call, compare_outputs, golden
from lemurc.verification import Comparison

PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"


@dataclass(frozen=True)
class Check:
    """One function on one device; `status` is "passed", "failed" or "not run"."""

    device: str
    function: str
    status: str
    max_error: float = 0.0
    allowed: float = 0.0
    detail: str = ""


@dataclass(frozen=True)
class VerifyResult:
    """`checks` also names each target that no device here could check."""

    path: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """True when something ran and nothing that ran was wrong."""
        statuses = [check.status for check in self.checks]
        return PASSED in statuses and FAILED not in statuses


def verify(path: str | Path, *, devices: Sequence[str] | None = None) -> VerifyResult:
    """Run every function with golden outputs on each device present, one device at a time.

    `devices` restricts that to the devices named. Raises ArtifactError when the artifact
    has no golden outputs and DeviceError when no device could run it.
    """
    from lemurc.runtime.artifact import Artifact
    from lemurc.tools.devices import devices as present

    with Artifact(path) as artifact:
        manifest: Manifest = artifact.manifest
        recorded = {name: golden(artifact, name) for name in manifest.functions}
    calls = {name: record for name, record in recorded.items() if record is not None}
    if not calls:
        raise ArtifactError(
            f"{path} holds no golden outputs to verify against",
            code="no-golden",
            where=str(path),
            hint="compile it again without --no-golden",
        )
    targets = {module.target for stage in manifest.stages.values() for module in stage.modules}
    here = [d for d in present().devices if d.target in targets]
    if devices is not None:
        names: list[tuple[str, str]] = [(name, name.partition(":")[0]) for name in devices]
    else:
        names = [(device.name, device.target) for device in here]
    checks = [check for name, _ in names for check in _on_device(path, name, manifest, calls)]
    missing = sorted(targets - {target for _, target in names}) if devices is None else []
    checks += [Check(target, "", NOT_RUN, detail="no such device here") for target in missing]
    if all(check.status == NOT_RUN for check in checks):
        raise DeviceError(
            f"no device here can run {path}, so nothing was verified",
            code="nothing-verified",
            hint="`lemurc devices` says what is here and why others are not",
        )
    return VerifyResult(str(path), tuple(checks))


def _on_device(
    path: str | Path, device: str, manifest: Manifest, calls: dict[str, Golden]
) -> list[Check]:
    import lemurc

    checks: list[Check] = []
    for name, record in calls.items():
        try:
            # a fresh session each time: golden outputs start from the initial state
            with lemurc.load(path, devices=[device], strict=True) as session:
                results = call(session, name, manifest.functions[name], record.inputs)
        except LemurcError as error:
            checks.append(Check(device, name, NOT_RUN, detail=error.message))
            continue
        function = manifest.functions[name]
        compared = compare_outputs(manifest, function, results, record.outputs)
        checks.append(_summary(device, name, compared))
    return checks


def _summary(device: str, function: str, compared: Sequence[Comparison]) -> Check:
    wrong = [row for row in compared if not row.ok]
    rows: Sequence[Any] = wrong or compared
    worst = max(rows, key=lambda row: row.error, default=Comparison("", True, 0.0, 0.0))
    detail = f"output {worst.name!r}: {worst.detail}" if worst.detail else ""
    status = FAILED if wrong else PASSED
    return Check(device, function, status, worst.error, worst.allowed, detail)
