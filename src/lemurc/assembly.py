"""From lowered stages to the contents of an artifact."""

import hashlib
import importlib.metadata
import json
import logging
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import lemurc
from lemurc import code_failures
from lemurc import manifest as mf
from lemurc.draws import random_inputs
from lemurc.errors import UnsupportedModelError
from lemurc.exchange import FoldedParameters, IreeInput, Response, TargetArch
from lemurc.generation import compile_once, generate
from lemurc.options import CompileOptions
from lemurc.targets.base import StageTraits
from lemurc.verification import TOLERANCE

if TYPE_CHECKING:
    from lemurc.frontend.program import Program
    from lemurc.targets.compile import CompileFailure
    from lemurc.targets.registry import TargetRequest

Array = np.ndarray[Any, Any]
GOLDEN_SEED = 20
_REASON_LENGTH = 120
PRODUCERS = ("torch", "torch-mlir", "iree-base-compiler")

logger = logging.getLogger(__name__)


@dataclass
class Build:
    """What goes into an artifact, and `check`: the same for the CPU of this machine.

    `check` holds plans whose every device is replaced by a CPU one, for verifying what
    no device here can run. `refused` are the targets asked for that no plan uses, and why.
    """

    manifest: mf.Manifest
    entries: dict[str, bytes]
    weights: dict[str, Array]
    check: "Build | None" = None
    notes: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def with_verification_arch(archs: Sequence[TargetArch]) -> list[TargetArch]:
    """Have every stage compiled for the CPU of this machine too."""
    from lemurc.targets.cpu import host_architecture

    host = host_architecture()
    kept = [arch for arch in archs if (arch.target, arch.arch) != ("cpu", host)]
    return [*kept, TargetArch("cpu", host, always=True, stored=len(kept) < len(archs))]


def build(
    program: "Program",
    response: Response,
    requests: Sequence["TargetRequest"],
    folder: Path,
    options: CompileOptions,
    remaining: Callable[[], float | None],
) -> Build:
    """Generate code for every stage and put the parts together.

    A target that IREE cannot compile a stage for loses the plans that need it, with a
    note; it is an error under `strict`, or when no plan is left.
    """
    inputs = [(name, ir) for name, stage in response.stages.items() for ir in stage.ir]
    notes = list(response.notes)
    wanted = [(request.target.name, arch) for request in requests for arch in request.archs]
    modules = generate(inputs, response.stages, wanted, folder, options, remaining, notes)
    stages, check_stages = {}, {}
    for name, stage in response.stages.items():
        common = (stage.inputs, stage.outputs, stage.cost, stage.ops)
        files = {
            (ir.target, ir.arch): module_file(ir, content)
            for ir in stage.ir
            if isinstance(content := modules[name, ir.target, ir.arch], bytes)
        }
        effects = [ir.traits.memory for ir in stage.ir]
        written = tuple(sorted({at for effect in effects for at in effect.written}))
        owned = tuple(
            at for at in range(len(stage.outputs)) if all(at in effect.owned for effect in effects)
        )
        stored = tuple(files[key] for key in wanted if key in files)
        checked = tuple(f for f in files.values() if f.target == "cpu")
        whole = mf.Stage(
            *common, stored, written, owned, stage.host, stage.work, stage.content, stage.paths
        )
        stages[name] = whole
        check_stages[name] = replace(whole, modules=checked)
    failures = [result for result in modules.values() if not isinstance(result, bytes)]
    plans = _compiled_plans(response, stages, failures, options, notes)
    functions = {
        name: mf.Function(
            inputs=signature.inputs,
            outputs=signature.outputs,
            results=response.functions[name].results,
            in_tree=signature.in_tree,
            out_tree=signature.out_tree,
            argument_names=signature.argument_names,
            argument_defaults=signature.argument_defaults,
            state_updates=response.functions[name].state_updates,
            input_updates=response.functions[name].input_updates,
            input_ranges=signature.input_ranges,
            checks=signature.checks,
            check_flags=response.functions[name].check_flags,
        )
        for name, signature in program.functions.items()
    }
    weights = dict(program.weights)
    weights.update(_folded(response.parameters, weights, folder, options))
    golden, entries = _golden(program, options)
    contents = {
        f.file: content
        for name, stage in response.stages.items()
        for ir in stage.ir
        if isinstance(content := modules[name, ir.target, ir.arch], bytes)
        and (f := module_file(ir, content))
    }

    def assemble(plans: Sequence[mf.Plan], stages: dict[str, mf.Stage]) -> Build:
        used = {step.stage for plan in plans for steps in plan.steps.values() for step in steps}
        kept = {name: stage for name, stage in stages.items() if name in used}
        files = [f for stage in kept.values() for f in stage.modules]
        manifest = mf.Manifest(
            model=program.name,
            functions=functions,
            stages=kept,
            plans=tuple(plans),
            state=program.state,
            imports=options.imports if any(stage.host for stage in kept.values()) else (),
            training=program.training,
            golden=golden,
            tolerance=_tolerance(options),
            producer=producer() | _plugins(kept) | program.producer,
        )
        return Build(
            manifest,
            {**{f.file: contents[f.file] for f in files}, **entries},
            used_weights(weights, manifest),
        )

    result = assemble(plans, stages)
    result.notes = notes
    result.refused = _refused(requests, plans, response, failures)
    result.check = assemble([_on_cpu(plan) for plan in plans], check_stages)
    return result


def write(path: Path, build: Build, external_weights: str | None = None) -> mf.Manifest:
    """`external_weights` names the file, in the folder of `path`, that the weights go to."""
    from lemurc.runtime.artifact import write as write_artifact

    return write_artifact(
        path, build.manifest, build.entries, build.weights, external_weights=external_weights
    )


def cache_path(program: "Program", build: Build) -> Path:
    """Where an artifact goes when the caller names no file: a name by content."""
    from lemurc.targets.cache import default_directory

    digest = hashlib.sha256(mf.to_json(build.manifest).encode())
    for name, array in sorted(build.weights.items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return default_directory() / "artifacts" / f"{program.name}-{digest.hexdigest()[:16]}.lemur"


def placement_line(manifest: mf.Manifest) -> str:
    """Where the preferred plan runs the first function, in one line."""
    from lemurc.runtime.report import planned

    return planned(manifest, manifest.plans[0], next(iter(manifest.functions))).line()


def sizes(manifest: mf.Manifest) -> dict[str, int]:
    """Bytes by kind of entry."""
    totals: dict[str, int] = {}
    for name, described in manifest.files.items():
        kind = name.split("/")[0].split(".")[0]
        totals[kind] = totals.get(kind, 0) + int(described["size"])
    return totals


def module_file(ir: IreeInput, content: bytes) -> mf.ModuleFile:
    from lemurc.targets.registry import get

    digest = hashlib.sha256(content).hexdigest()[:16]
    kind = "vmfb" if get(ir.target).compiler is None else "bin"
    file = f"modules/{ir.target}-{ir.arch}-{digest}.{kind}"
    return mf.ModuleFile(ir.target, ir.arch, file, ir.parameters)


def _compiled_plans(
    response: Response,
    stages: dict[str, mf.Stage],
    failures: Sequence["CompileFailure | bytes"],
    options: CompileOptions,
    notes: list[str],
) -> list[mf.Plan]:
    """The plans every step of which has code, best first, equal ones once."""
    kept = []
    for plan in response.plans:
        target = {device.name: device.target for device in plan.devices}
        steps = [step for steps in plan.steps.values() for step in steps]
        if all(
            stages[step.stage].host is not None
            or any(f.target == target[step.device] for f in stages[step.stage].modules)
            for step in steps
        ):
            kept.append(plan)
    messages = sorted(
        code_failures.not_compiled(failure, response.stages[failure.job.name])
        for failure in failures
        if not isinstance(failure, bytes)
    )
    if messages and (options.strict or not kept):
        raise UnsupportedModelError(
            "\n".join(messages),
            code="code-generation",
            hint="leave the target out, or report the reproducer",
        )
    notes += messages
    return in_order(kept, options)


def in_order(plans: Sequence[mf.Plan], options: CompileOptions) -> list[mf.Plan]:
    """Distinct plans, best first. Where the user named devices, by pins or a system, theirs is."""
    kept: dict[Any, mf.Plan] = {}
    for plan in plans:
        steps = [(s.stage, s.device) for steps in plan.steps.values() for s in steps]
        kept.setdefault((plan.devices, json.dumps(steps)), plan)
    if options.pins or options.system is not None:
        return list(kept.values())
    return sorted(kept.values(), key=lambda plan: _cost(plan, options.objective))


def _cost(plan: mf.Plan, objective: str) -> float:
    """What the objective wants little of, summed over the entry points."""
    predicted = plan.predicted.values()
    if objective == "throughput":
        return sum(max(p.seconds_by_device.values(), default=0.0) for p in predicted)
    if objective == "memory":
        return sum(max((m.peak for m in p.memory.values()), default=0) for p in predicted)
    return sum(p.seconds for p in predicted)


def _refused(
    requests: Sequence["TargetRequest"],
    plans: Sequence[mf.Plan],
    response: Response,
    failures: Sequence["CompileFailure | bytes"],
) -> dict[str, str]:
    """Why no plan uses a target that was asked for: the first reason found, in short."""
    used = {device.target for plan in plans for device in plan.devices}
    reasons = dict(response.illegal)
    for failure in failures:
        if not isinstance(failure, bytes):
            stage = response.stages[failure.job.name]
            reasons.setdefault(failure.job.target, code_failures.reason(failure, stage))
    return {
        name: textwrap.shorten(reasons.get(name, "no plan uses it"), _REASON_LENGTH)
        for name in (request.target.name for request in requests)
        if name not in used
    }


def _on_cpu(plan: mf.Plan) -> mf.Plan:
    """The same stages on as many CPU devices; what PyTorch runs it runs anyway."""
    names = {
        device.name: mf.HOST if device.target == mf.HOST else f"cpu:{index}"
        for index, device in enumerate(plan.devices)
    }
    return replace(
        plan,
        devices=tuple(
            mf.Device(name, mf.HOST if name == mf.HOST else "cpu") for name in names.values()
        ),
        steps={
            function: tuple(mf.Step(step.stage, names[step.device]) for step in steps)
            for function, steps in plan.steps.items()
        },
    )


def _folded(
    folded: FoldedParameters | None,
    weights: dict[str, Array],
    folder: Path,
    options: CompileOptions,
) -> dict[str, Array]:
    """Run the function of weights that the passes took out of the model, once."""
    if folded is None:
        return {}
    from lemurc.runtime.artifact import write as write_artifact
    from lemurc.runtime.session import load
    from lemurc.targets.cpu import host_architecture

    arch = host_architecture()
    ir = IreeInput("cpu", arch, folded.ir, folded.inputs, StageTraits())
    module = compile_once([("weights", ir)], folder, options, lambda: None, careful=False)[
        "weights", "cpu", arch
    ]
    if not isinstance(module, bytes):
        raise UnsupportedModelError(
            code_failures.not_compiled(module, None), code="code-generation"
        )
    values = tuple(f"v{i}" for i in range(len(folded.outputs)))
    file = mf.ModuleFile("cpu", arch, "modules/weights.vmfb", folded.inputs)
    function = mf.Function(
        inputs=(),
        outputs=folded.outputs,
        results=values,
        in_tree={
            "kind": "tuple",
            "items": [{"kind": "tuple", "items": []}, {"kind": "dict", "keys": [], "items": []}],
        },
        out_tree={"kind": "list", "items": [{"kind": "leaf"}] * len(values)},
    )
    manifest = mf.Manifest(
        model="weights",
        functions={"main": function},
        stages={"s0": mf.Stage((), values, mf.Cost(), {}, (file,))},
        plans=(mf.Plan((mf.Device("cpu:0", "cpu"),), {"main": (mf.Step("s0", "cpu:0"),)}, {}),),
    )
    path = folder / "weights.lemur"
    write_artifact(path, manifest, {file.file: module}, {n: weights[n] for n in folded.inputs})
    with load(path, devices=["cpu:0"], check_weights=False) as session:
        return dict(zip((spec.name for spec in folded.outputs), session(), strict=True))


def used_weights(weights: dict[str, Array], manifest: mf.Manifest) -> dict[str, Array]:
    """The weights some module or function asks for, in the layouts they ask for."""
    from lemurc.targets.layouts import in_layout

    wanted = {
        name
        for stage in manifest.stages.values()
        for file in stage.modules
        for name in file.parameters
    }
    wanted.update(
        reference.removeprefix("param:")
        for stage in manifest.stages.values()
        for reference in stage.inputs
        if reference.startswith("param:")
    )
    wanted.update(manifest.state)
    if manifest.training is not None:
        wanted.update(
            reference.removeprefix("param:")
            for reference in manifest.training.tensors.values()
            if reference.startswith("param:")
        )
    for function in manifest.functions.values():
        references = [
            *function.results,
            *function.state_updates.values(),
            *function.input_updates.values(),
        ]
        wanted.update(r.removeprefix("param:") for r in references if r.startswith("param:"))
    return {name: in_layout(weights, name) for name in sorted(wanted)}


def _golden(
    program: "Program", options: CompileOptions
) -> tuple[dict[str, mf.Golden], dict[str, bytes]]:
    golden: dict[str, mf.Golden] = {}
    entries: dict[str, bytes] = {}
    if options.golden == "none" or program.reference is None:
        return golden, entries
    for function, reference in program.reference.items():
        if program.random.get(function):
            continue  # eager draws other numbers in each call
        inputs = program.examples[function]
        if options.golden == "random":
            inputs = random_inputs(inputs, GOLDEN_SEED)
        try:
            outputs = reference(inputs)[: len(program.functions[function].outputs)]
        except Exception as error:  # values that hang together, offsets say
            logger.debug("eager refuses random inputs of %s, so no golden: %s", function, error)
            continue
        parts = {"in": inputs, "out": outputs}
        files: dict[str, tuple[mf.TensorFile, ...]] = {}
        for kind, arrays in parts.items():
            names = [f"golden/{function}.{kind}{i}.bin" for i in range(len(arrays))]
            entries.update((n, a.tobytes()) for n, a in zip(names, arrays, strict=True))
            files[kind] = tuple(
                mf.TensorFile(name, str(array.dtype), array.shape)
                for name, array in zip(names, arrays, strict=True)
            )
        golden[function] = mf.Golden(files["in"], files["out"])
    return golden, entries


def _tolerance(options: CompileOptions) -> dict[str, float]:
    if options.tolerance is None:
        return dict(TOLERANCE)
    return dict.fromkeys(TOLERANCE, options.tolerance)


def _plugins(stages: dict[str, mf.Stage]) -> dict[str, str]:
    """The packages that made code, by the name of their target."""
    from lemurc.targets.registry import package_of

    targets = sorted({module.target for stage in stages.values() for module in stage.modules})
    packages = {f"target {name}": package_of(name) for name in targets}
    return {name: package for name, package in packages.items() if package}


def producer() -> dict[str, str]:
    versions = {name: importlib.metadata.version(name) for name in PRODUCERS}
    versions["torch"] = versions["torch"].partition("+")[0]
    return {"lemurc": lemurc.__version__, **versions}
