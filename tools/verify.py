"""`lemurc.verify`: does an artifact still give its golden outputs, here, on each device?"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lemurc.errors import ArtifactError, DeviceError, LemurcError
from lemurc.manifest import Manifest
from lemurc.tools.call import Array, call, compare_outputs
from lemurc.user_modules import import_modules
from lemurc.verification import Comparison

Call = tuple[list[Array], list[Array]]
"""The recorded inputs and outputs of one call."""

VERIFIED, FAILED, NOT_RUN = "verified", "failed", "not run"


@dataclass(frozen=True)
class Check:
    """One function on one device, or on several together.

    `status` is "verified", "failed" or "not run", as in the verdicts of `compile`;
    `detail` is what is wrong, why it did not run, or what ran where.
    """

    device: str
    function: str
    status: str
    max_error: float = 0.0
    allowed: float = 0.0
    detail: str = ""


@dataclass(frozen=True)
class VerifyResult:
    """`ok` means that nothing that ran was wrong; something always ran.

    `checks` also names each target that no device here could check.
    """

    ok: bool
    path: str
    checks: tuple[Check, ...]


def verify(
    path: str | Path, *, devices: Sequence[str] | None = None, imports: Sequence[str] = ()
) -> VerifyResult:
    """Run every function with golden outputs on all devices present, together and one by one.

    `devices` restricts that to the devices named; `imports` are those of `lemurc.load`. Raises
    ArtifactError when the artifact has no golden outputs and DeviceError when no device could
    run it.
    """
    from lemurc.runtime.artifact import Artifact
    from lemurc.runtime.placement import targets_of
    from lemurc.tools.devices import devices as present

    with Artifact.open(path, check_weights=False) as artifact:  # `load` checks them
        manifest = artifact.manifest
        recorded = {name: artifact.golden(name) for name in manifest.functions}
    calls = {name: record for name, record in recorded.items() if record is not None}
    if not calls:
        raise ArtifactError(
            f"{path} holds no golden outputs to verify against",
            code="no-golden",
            where=str(path),
            hint="compile it again without --no-golden",
        )
    targets = {module.target for stage in manifest.stages.values() for module in stage.modules}
    targets |= set(targets_of(manifest))  # what computes nothing has no modules
    names = devices or [d.name for d in present().devices if d.target in targets]
    groups = [[name] for name in names]
    if len(names) > 1:
        groups.insert(0, list(names))  # the plan that a call really uses may mix them
    import_modules(imports)
    checks = [check for group in groups for check in _on_devices(path, group, manifest, calls)]
    if devices is None:
        missing = sorted(targets - {name.partition(":")[0] for name in names})
        checks += [Check(target, "", NOT_RUN, detail="no such device here") for target in missing]
    if all(check.status == NOT_RUN for check in checks):
        raise DeviceError(
            f"no device here can run {path}, so nothing was verified",
            code="nothing-verified",
            hint="`lemurc devices` says what is here and why others are not",
        )
    ok = all(check.status != FAILED for check in checks)
    return VerifyResult(ok, str(path), tuple(checks))


def _on_devices(
    path: str | Path, devices: list[str], manifest: Manifest, calls: dict[str, Call]
) -> list[Check]:
    import lemurc

    where = " + ".join(devices)
    checks: list[Check] = []
    for name, (inputs, expected) in calls.items():
        try:
            # a fresh session each time: golden outputs start from the initial state
            with lemurc.load(path, devices=devices, strict=True) as session:
                results = call(session, name, manifest.functions[name], inputs)
                placement = session.placement_line(name)
        except LemurcError as error:
            checks.append(Check(where, name, NOT_RUN, detail=error.message))
            continue
        function = manifest.functions[name]
        compared = compare_outputs(manifest, function, results, expected)
        checks.append(_summary(where, name, compared, placement))
    return checks


def _summary(device: str, function: str, compared: Sequence[Comparison], placement: str) -> Check:
    wrong = [row for row in compared if not row.ok]
    rows: Sequence[Any] = wrong or compared
    worst = max(rows, key=lambda row: row.error, default=Comparison("", True, 0.0, 0.0))
    detail = f"output {worst.name!r}: {worst.detail}" if worst.detail else placement
    status = FAILED if wrong else VERIFIED
    return Check(device, function, status, worst.error, worst.allowed, detail)
