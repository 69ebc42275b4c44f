"""`lemurc.inspect`: what an artifact holds, from its manifest alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lemurc.manifest import Cost, Function, Manifest, Plan, Stage, TensorSpec


@dataclass(frozen=True)
class StageSummary:
    """`modules` are "target:arch" with the size of the compiled code in bytes; a stage that
    PyTorch runs has none, and `host` is its operator.

    `parameters` are the weights the stage reads, at most; layouts differ by target.
    """

    name: str
    cost: Cost
    ops: dict[str, int]
    parameters: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    modules: dict[str, int]
    host: str = ""


@dataclass(frozen=True)
class PlanSummary:
    """The stages of each function by device, in execution order."""

    devices: tuple[str, ...]
    steps: dict[str, tuple[str, ...]]
    predicted_seconds: dict[str, float]
    crossings: dict[str, int]
    transfer_bytes: dict[str, int]


@dataclass(frozen=True)
class FunctionSummary:
    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    state: tuple[str, ...]
    golden: bool


@dataclass(frozen=True)
class InspectResult:
    """`sizes` sums the entries by kind, in bytes; `plans` are in order of preference.

    `imports` are the Python modules that define operators which PyTorch runs.
    """

    path: str
    model: str
    format: int
    producer: dict[str, str]
    targets: dict[str, tuple[str, ...]]
    functions: tuple[FunctionSummary, ...]
    stages: tuple[StageSummary, ...]
    plans: tuple[PlanSummary, ...]
    sizes: dict[str, int]
    tolerance: dict[str, float]
    imports: tuple[str, ...] = ()


def inspect(path: str | Path) -> InspectResult:
    """Reads `path` without opening a device."""
    from lemurc.runtime.artifact import Artifact

    with Artifact.open(path) as artifact:
        return summarise(artifact.manifest, path)


def summarise(manifest: Manifest, path: str | Path) -> InspectResult:
    bytes_of = {name: int(entry["size"]) for name, entry in manifest.files.items()}
    targets: dict[str, dict[str, None]] = {}
    for stage in manifest.stages.values():
        for module in stage.modules:
            targets.setdefault(module.target, {})[module.arch] = None
    return InspectResult(
        path=str(path),
        model=manifest.model,
        format=manifest.format,
        producer=manifest.producer,
        targets={target: tuple(archs) for target, archs in targets.items()},
        functions=tuple(_function(n, f, manifest) for n, f in manifest.functions.items()),
        stages=tuple(_stage(name, s, bytes_of) for name, s in manifest.stages.items()),
        plans=tuple(_plan(plan) for plan in manifest.plans),
        sizes=_sizes(manifest, bytes_of),
        tolerance=manifest.tolerance,
        imports=manifest.imports,
    )


def _function(name: str, function: Function, manifest: Manifest) -> FunctionSummary:
    state = tuple(function.state_updates)
    recorded = name in manifest.golden
    return FunctionSummary(name, function.inputs, function.outputs, state, recorded)


def _stage(name: str, stage: Stage, bytes_of: Mapping[str, int]) -> StageSummary:
    weights = sum(reference.startswith("param:") for reference in stage.inputs)
    return StageSummary(
        name=name,
        cost=stage.cost,
        ops=stage.ops,
        parameters=max((len(m.parameters) for m in stage.modules), default=weights),
        inputs=stage.inputs,
        outputs=stage.outputs,
        modules={f"{m.target}:{m.arch}": bytes_of.get(m.file, 0) for m in stage.modules},
        host=stage.host.op if stage.host else "",
    )


def _plan(plan: Plan) -> PlanSummary:
    return PlanSummary(
        devices=tuple(device.name for device in plan.devices),
        steps={
            name: tuple(f"{step.stage}@{step.device}" for step in steps)
            for name, steps in plan.steps.items()
        },
        predicted_seconds={name: p.seconds for name, p in plan.predicted.items()},
        crossings={name: p.crossings for name, p in plan.predicted.items()},
        transfer_bytes={name: p.transfer_bytes for name, p in plan.predicted.items()},
    )


def _sizes(manifest: Manifest, bytes_of: Mapping[str, int]) -> dict[str, int]:
    code = {m.file for stage in manifest.stages.values() for m in stage.modules}
    recorded = {
        file.file for call in manifest.golden.values() for file in (*call.inputs, *call.outputs)
    }
    sizes: dict[str, int] = {}
    for name, size in bytes_of.items():
        if name.startswith("weights"):
            kind = "weights"
        else:
            kind = "modules" if name in code else "golden" if name in recorded else "other"
        sizes[kind] = sizes.get(kind, 0) + size
    return sizes
