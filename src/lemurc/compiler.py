"""`lemurc.compile`: from a model to one `.lemur` file, checked against eager.

    frontend -> lowering (a child process) -> iree-compile (children) -> artifact -> verify

Nothing appears under the output's name before it has been verified.
"""

import dataclasses
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lemurc import assembly, exchange, manifest, pass_limit, profiling
from lemurc.acceptance import Check, verify
from lemurc.child import run_module
from lemurc.errors import UnsupportedModelError, UsageError, VerificationError
from lemurc.options import CompileOptions, chosen_options
from lemurc.profiles import Profile
from lemurc.systems import Description, asked_devices, find_description, notes_on, systems
from lemurc.user_modules import import_modules
from lemurc.verification import Verdict

if TYPE_CHECKING:
    from lemurc.frontend.program import Program
    from lemurc.targets.registry import TargetRequest


@dataclass
class CompileResult:
    """The artifact written, and what there is to say about it.

    `sizes` are bytes by kind of entry, `seconds` wall time by phase; `notes` must be
    shown to the user: they say what was left out and why.
    """

    path: Path
    manifest: manifest.Manifest
    verdicts: list[Verdict]
    sizes: dict[str, int]
    seconds: dict[str, float]
    placement: str = ""
    notes: list[str] = field(default_factory=list)


def compile(
    model: Any,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    targets: str = "cpu",
    dynamic_shapes: Any = None,
    output: str | os.PathLike[str] | None = None,
    **options: Any,
) -> CompileResult:
    """Compile `model` for any non-empty subset of `targets` and verify it.

    `model` is an `nn.Module` or ExportedProgram with example `args` and `kwargs`, a dict
    of entry points `{"prefill": (module, args), ...}` over shared weights, or a path.
    `options` are the fields of `CompileOptions`. Without `output` the artifact goes to
    the cache folder. Raises a LemurcError for whatever is the user's to mend.
    """
    chosen = chosen_options(options, "compile", CompileOptions)

    def read(clock: Clock) -> "Program":
        return load_program(model, args, kwargs, dynamic_shapes, chosen, clock)

    return compile_program(read, targets, output, chosen)


def compile_program(
    read: Callable[["Clock"], "Program"],
    targets: str,
    output: str | os.PathLike[str] | None,
    chosen: CompileOptions,
    check: Check | None = None,
) -> CompileResult:
    """What `compile` does once there is a program; `check` is one more of each target's."""
    clock = Clock(chosen)
    from lemurc.targets.registry import parse_targets

    requests = parse_targets(targets)
    planned_for = find_description(chosen.system)
    # before the work: what it refuses
    systems(requests, chosen.pins, planned_for, forbids=chosen.forbids)
    destination = Path(output) if output is not None else None
    if destination is not None:
        _check_writable(destination)
    if chosen.external_weights is not None:
        _check_external(chosen.external_weights, destination)
    program = read(clock)
    profiled_notes: list[str] = []
    with work_folder(chosen) as folder:
        devices: list[profiling.Here] = []
        if chosen.profile:
            with clock.phase("profile operations"):
                devices, profiled_notes = _profile_operations(
                    program, requests, planned_for, folder, chosen, clock
                )
        sets, profiled = known_systems(requests, chosen, planned_for)
        measured = {target: profile.stages for target, profile in profiled.items()}
        with clock.phase("lower"):
            response = lower(program, requests, sets, folder, chosen, clock, measured)
        with clock.phase("generate code"):
            build = assembly.build(program, response, requests, folder, chosen, clock.remaining)
        path = destination or assembly.cache_path(program, build)
        path.parent.mkdir(parents=True, exist_ok=True)
        with _unverified(path) as candidate:
            with clock.phase("write"):
                written = assembly.write(candidate, build, chosen.external_weights)
            verdicts: list[Verdict] = []
            if chosen.verify:
                with clock.phase("verify"):
                    verdicts = verify(candidate, program, build, chosen, check)
                _refuse_mismatch(verdicts, program.reference_name)
            if devices:
                with clock.phase("profile stages"):
                    profiling.measure_stages(devices, candidate, program)
            for file in sorted(candidate.parent.iterdir(), key=lambda file: file == candidate):
                os.replace(file, path.parent / file.name)  # the artifact last
    return CompileResult(
        path=path,
        manifest=written,
        verdicts=verdicts + _not_compiled(build),
        sizes=assembly.sizes(written),
        seconds=clock.seconds,
        placement=assembly.placement_line(written),
        notes=[
            *(note for request in requests for note in request.notes),
            *notes_on(requests, planned_for),
            *profiling.notes_on(profiled),
            *profiled_notes,
            *build.notes,
            *_without_weights(written, chosen),
        ],
    )


def load_program(
    model: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    options: CompileOptions,
    clock: "Clock",
) -> "Program":
    """The frontend's part, with the user's own operators imported first."""
    from lemurc.frontend.load import load

    with clock.phase("import"):
        import_modules(options.imports)
        return load(
            model,
            args,
            dict(kwargs or {}),
            dynamic_shapes=dynamic_shapes,
            inputs=options.inputs,
            dynamic=options.dynamic,
            trust_pickle=options.trust_pickle,
            model_factory=options.model_factory,
        )


def known_systems(
    requests: tuple["TargetRequest", ...], options: CompileOptions, planned_for: Description | None
) -> tuple[tuple[dict[str, Any], ...], dict[str, Profile]]:
    """The sets of devices to plan for, with what was measured of those that are here."""
    is_here = planned_for is None or planned_for.is_here
    profiled = profiling.known(requests) if is_here else {}
    figures = {target: profile.figures() for target, profile in profiled.items()}
    return systems(requests, options.pins, planned_for, figures, options.forbids), profiled


class Clock:
    """Wall time by phase, and what the budget leaves."""

    def __init__(self, options: CompileOptions) -> None:
        self.options = options
        self.seconds: dict[str, float] = {}
        self.start = time.monotonic()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.options.report(name, 0, 0)
        start = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - start
        self.options.report(name, 1, 1)

    def remaining(self) -> float | None:
        if self.options.budget_s is None:
            return None
        return max(0.01, self.options.budget_s - (time.monotonic() - self.start))


def _check_writable(path: Path) -> None:
    """Fail before the work, not after it."""
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        reason = "is a folder" if path.is_dir() else f"{path.parent} is no folder to write to"
        raise UsageError(
            f"cannot write {path}: {reason}",
            code="unwritable-output",
            where=str(path),
            hint="choose another --output",
        )


def _check_external(name: str, destination: Path | None) -> None:
    """Weights lie beside an artifact of the user's, under another name."""
    if destination is None or name == destination.name:
        why = "that is the artifact" if destination else "there is no --output to lie beside"
        raise UsageError(
            f"cannot put the weights into {name!r}: {why}",
            code="external-weights",
            where="--external-weights",
            hint="give an --output, and a file name of its own such as model.irpa",
        )
    if Path(name).name != name:
        raise UsageError(
            f"{name!r} is not a plain file name",
            code="external-weights",
            where="--external-weights",
            hint="weights lie beside the artifact: give a name without a folder",
        )
    _check_writable(destination.parent / name)


@contextmanager
def _unverified(path: Path) -> Iterator[Path]:
    """Where an artifact, and the weights beside it, lie until they are known to be right."""
    folder = path.parent / f".{path.name}.{secrets.token_hex(4)}.unverified"
    try:
        folder.mkdir()
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}",
            code="unwritable-output",
            where=str(path),
            hint="choose another --output, or make room",
        ) from error
    try:
        yield folder / path.name
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def work_folder(options: CompileOptions) -> Iterator[Path]:
    if options.save_temps is not None:
        folder = Path(options.save_temps)
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    folder = Path(tempfile.mkdtemp(prefix="lemurc-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def lower(
    program: "Program",
    requests: tuple["TargetRequest", ...],
    sets: tuple[dict[str, Any], ...],
    folder: Path,
    options: CompileOptions,
    clock: Clock,
    measured: dict[str, dict[str, float]] | None = None,
    plan_only: bool = False,
    explain: tuple[str, ...] = (),
) -> exchange.Response:
    """Run the lowering process. `measured` is what stages took, by target and content."""
    archs = [
        exchange.TargetArch(request.target.name, arch)
        for request in requests
        for arch in request.archs
    ]
    if options.verify:
        archs = assembly.with_verification_arch(archs)
    request = exchange.Request(
        sets,
        tuple(archs),
        options.opt_level,
        program.level,
        asked=asked_devices(sets, options.system is not None),
        strict=options.strict,
        host_ops=options.allow_host_ops,
        pass_limit=options.pass_limit,
        kernels=pass_limit.allows(options.pass_limit, pass_limit.SELECT_KERNELS, options.opt_level),
        objective=options.objective,
        order=options.order,
        splits=tuple(options.splits),
        micro_batches=_micro_batches(options),
        largest_stage=options.largest_stage,
        measured=measured or {},
        keep_ir=options.save_temps is not None,
        plan_only=plan_only,
        explain=explain,
    )
    exchange.write_request(folder, program.mlir, request)
    run_module(
        "lemurc.lowering",
        folder,
        error_file=exchange.ERROR,
        time_limit=clock.remaining(),
        budget=options.budget_s,
        max_rss=options.max_rss,
    )
    return exchange.read_response(folder)


def _micro_batches(options: CompileOptions) -> int | None:
    """None is for the planner to choose."""
    if options.micro_batches == "auto":
        return None if options.objective == "throughput" else 1
    return options.micro_batches


def _profile_operations(
    program: "Program",
    requests: tuple["TargetRequest", ...],
    planned_for: Description | None,
    folder: Path,
    options: CompileOptions,
    clock: Clock,
) -> tuple[list[profiling.Here], list[str]]:
    """Time the model's operations on each device here; the devices, and what to say."""
    if refused := profiling.why_not(program):
        return [], [refused]
    found, notes = profiling.measurable(requests)
    pieces = dataclasses.replace(
        options,
        verify=False,
        pins=(),
        splits=(),
        micro_batches=1,
        system=None,
        external_weights=None,
    )
    devices = []
    for here in found:
        sets = systems((here.request,), (), planned_for)[-1:]
        try:
            paths = []
            for size in profiling.PIECES:
                own = folder / f"profile-{here.request.target.name}-{size}"
                own.mkdir(exist_ok=True)
                chosen = dataclasses.replace(pieces, largest_stage=size)
                response = lower(program, (here.request,), sets, own, chosen, clock)
                build = assembly.build(
                    program, response, (here.request,), own, chosen, clock.remaining
                )
                paths.append(own / "operations.lemur")
                assembly.write(paths[-1], build)
        except UnsupportedModelError as error:
            notes.append(f"{here.request.target.name}: not profiled: {error.message}")
            continue
        count = profiling.measure_operations(here, paths[0], program)
        for path in paths[1:]:
            profiling.measure_stages([here], path, program)
        notes.append(f"{here.device}: timed {count} kinds and shapes of operation")
        devices.append(here)
    return devices, notes


def _without_weights(written: manifest.Manifest, options: CompileOptions) -> list[str]:
    if options.external_weights is None or written.weights:
        return []
    return [f"{options.external_weights} was not written: the model has no weights"]


def _not_compiled(build: assembly.Build) -> list[Verdict]:
    return [Verdict(target, "not compiled", 0.0, why) for target, why in build.refused.items()]


def _refuse_mismatch(verdicts: list[Verdict], reference: str) -> None:
    failed = [verdict for verdict in verdicts if verdict.status == "failed"]
    if failed:
        raise VerificationError(
            f"the compiled program differs from {reference}\n"
            + "\n".join(f"  {verdict.target}: {verdict.detail}" for verdict in failed),
            hint="no artifact was written; `lemurc bisect` with the same arguments finds the "
            "operator; --tolerance accepts a stated error, --no-verify any error",
        )
