"""Run a freshly written artifact against eager before anyone else may have it.

Every target with a device here runs its own plan. What no device here can run is run
too, the same stages compiled for the CPU: that checks the program, not the target's code
generator, and the verdict says so.
"""

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lemurc import manifest as mf
from lemurc import pytree
from lemurc.assembly import Array, Build, write
from lemurc.draws import is_dynamic, random_inputs, random_shapes
from lemurc.errors import LemurcError
from lemurc.options import CompileOptions
from lemurc.verification import Comparison, Verdict, compare_all

if TYPE_CHECKING:
    from lemurc.frontend.program import Program
    from lemurc.runtime.session import Session

logger = logging.getLogger(__name__)

RANDOM_DRAWS = 2
SLOW_FLOPS_LIMIT = 2e8
"""Software Vulkan and VMVX make some 3e7 operations a second: more is left to the user."""


Check = Callable[["Session"], tuple[list[Comparison], str]]
"""More to compare in a session, with what to say of it."""


def verify(
    artifact: Path,
    program: "Program",
    build: Build,
    options: CompileOptions,
    check: Check | None = None,
) -> list[Verdict]:
    """One verdict per target of the plans; no device or no eager model is "not run"."""
    from lemurc.runtime.placement import targets_of

    targets = sorted(targets_of(build.manifest))
    if program.reference is None:
        return [
            Verdict(t, "not run", detail="the model came as MLIR; there is no eager")
            for t in targets
        ]
    calls = _calls(program)
    verdicts: dict[str, Verdict] = {}
    for plan in build.manifest.plans:
        names = {device.target for device in plan.devices if device.target != mf.HOST}
        devices, missing = _devices_for(plan, build.manifest)
        if missing or names <= set(verdicts):
            continue
        verdict = _run(artifact, devices, calls, options, check)
        for name in names:
            verdicts.setdefault(name, Verdict(name, **verdict))
    rest = [target for target in targets if target not in verdicts]
    if rest and build.check is not None:
        checked = _run_on_cpu(artifact, build.check, calls, options, check)
        for target in rest:
            verdicts[target] = _not_run(target, build.manifest, checked)
    return [verdicts[target] for target in targets]


@dataclass(frozen=True)
class Call:
    """What eager answers; of the `random` ones only shapes and dtypes are compared."""

    function: str
    inputs: list[Array]
    want: list[Array]
    random: tuple[int, ...] = ()


def _calls(program: "Program") -> list[Call]:
    """The example call and two with random inputs, for each function.

    With dynamic sizes two more draws have sizes of their own. Draws that eager itself
    refuses, because sizes and values hang together, are left out.
    """
    assert program.reference is not None
    calls: list[Call] = []
    for function, reference in program.reference.items():
        example, specs = program.examples[function], program.functions[function].inputs
        random = program.random.get(function, ())
        calls.append(Call(function, example, list(reference(example)), random))
        draws = [random_inputs(example, seed) for seed in range(RANDOM_DRAWS)]
        for seed in range(RANDOM_DRAWS if is_dynamic(specs) else 0):
            draws.append(random_inputs(example, seed, random_shapes(specs, example, seed)))
        for draw in draws:
            try:
                calls.append(Call(function, draw, list(reference(draw)), random))
            except Exception as error:
                logger.debug("eager refuses a draw of %s: %s", [a.shape for a in draw], error)
    return calls


def _devices_for(plan: mf.Plan, manifest: mf.Manifest) -> tuple[list[str], str]:
    """Names of devices here for `plan`, or why there are none."""
    from lemurc.runtime.devices import discover, is_software
    from lemurc.runtime.placement import modules_for

    compiled = [device for device in plan.devices if device.target != mf.HOST]
    inventory = discover(tuple({device.target for device in compiled}))
    flops = sum(stage.cost.flops for stage in manifest.stages.values())
    for target, names in inventory.names.items():
        if not names:
            reason = inventory.why_not.get(target, "")
            return [], f"no device: {reason}" if reason else "no device"
        description = inventory.descriptions[names[0]]
        slow = "VMVX" if target == "vmvx" else description if is_software(description) else ""
        if slow and flops > SLOW_FLOPS_LIMIT:
            return [], f"{slow} is too slow for {flops:.1e} operations"
    kinds = {device.name: device.target for device in plan.devices}
    for step in (step for steps in plan.steps.values() for step in steps):
        stage, target = manifest.stages[step.stage], kinds[step.device]
        if stage.host is None and not modules_for(stage, target):
            archs = sorted({module.arch for module in stage.modules if module.target == target})
            return [], f"made for {', '.join(archs)}, which this machine cannot run"
    return [device.name for device in compiled], ""


def _run(
    artifact: Path,
    devices: Sequence[str],
    calls: Sequence[Call],
    options: CompileOptions,
    check: Check | None,
) -> dict[str, Any]:
    """Fields of a Verdict, but for its target."""
    from lemurc.runtime.session import load

    try:
        with load(artifact, devices=list(devices), strict=True) as session:
            worst = [_compare(session, call, options) for call in calls]
            more, what = check(session) if check is not None else ([], "")
    except LemurcError as error:
        return {"status": "failed", "detail": str(error)}
    worst += more
    wrong = next((item for item in worst if not item.ok), None)
    largest = max((item.error for item in worst), default=0.0)
    if wrong is None:
        detail = f"{len(calls)} calls on {', '.join(devices)}"
        if what:
            detail += f"; {what}"
        if any(call.random for call in calls):
            detail += "; of random results only shapes and dtypes are compared"
        return {"status": "verified", "max_error": largest, "detail": detail}
    detail = wrong.detail or f"error {wrong.error:.1e} of the largest value"
    return {
        "status": "failed",
        "max_error": largest,
        "detail": f"{wrong.name}: {detail} (allowed: {wrong.allowed:.1e})",
    }


def _compare(session: "Session", call: Call, options: CompileOptions) -> Comparison:
    """The worst output of one call from the initial state."""
    name, inputs, want = call.function, call.inputs, call.want
    function = session.manifest.functions[name]
    own = [_aligned_copy(array) for array in inputs]
    args, kwargs = pytree.unflatten(function.in_tree, own)
    session.reset()
    results = pytree.flatten(function.out_tree, session.call(name, args, kwargs, None), "result")
    updated = sorted(int(index) for index in function.input_updates)
    got = [np.asarray(result) for result in results] + [own[index] for index in updated]
    names = [f"{name}: {spec.name}" for spec in function.outputs]
    names += [f"{name}: {function.inputs[index].name} afterwards" for index in updated]
    for index in call.random:
        if (got[index].shape, got[index].dtype) == (want[index].shape, want[index].dtype):
            got[index] = want[index]
    compared = compare_all(names, got, want, tolerance=options.tolerance)
    for index in sorted(set(range(len(own))) - set(updated)):
        # Code may write into memory it is given: to the bit what the model left alone.
        if own[index].tobytes() != inputs[index].tobytes():
            at = f"{name}: {function.inputs[index].name} afterwards"
            compared.append(Comparison(at, False, float("inf"), 0.0, "the argument was changed"))
    if not compared:
        return Comparison(name, True, 0.0, 0.0)
    return max(compared, key=lambda item: (not item.ok, item.error))


def _aligned_copy(array: Array) -> Array:
    """As PyTorch's tensors lie in memory, which the CPU reads where it is."""
    from lemurc.runtime.transport import ALIGNMENT

    room = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    own: Array = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    own[...] = array
    return own


def _run_on_cpu(
    artifact: Path,
    check: Build,
    calls: Sequence[Call],
    options: CompileOptions,
    further: Check | None,
) -> dict[str, Any]:
    path = artifact.parent / f".{secrets.token_hex(4)}.check"
    try:
        write(path, check)
        devices = [d.name for d in check.manifest.plans[0].devices if d.target != mf.HOST]
        return _run(path, devices, calls, options, further)
    finally:
        path.unlink(missing_ok=True)


def _not_run(target: str, manifest: mf.Manifest, checked: dict[str, Any]) -> Verdict:
    reasons = [
        _devices_for(plan, manifest)[1]
        for plan in manifest.plans
        if target in {device.target for device in plan.devices}
    ]
    why = next((reason for reason in reasons if reason), "no plan uses it")
    if checked["status"] == "failed":
        return Verdict(target, **checked)
    detail = f"{why}; program verified on cpu"
    return Verdict(target, "not run", checked.get("max_error", 0.0), detail)
