"""`lemurc.plan`: what would run where, how long it would take and how much memory it needs.

For a model nothing is compiled and no device is opened; for an artifact its manifest is read.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lemurc.errors import UsageError
from lemurc.explanation import ExplainedFunction
from lemurc.manifest import OrderMemory, Plan, Prediction, Stage, Transfer
from lemurc.tools.whole_files import check_writable, write_text

if TYPE_CHECKING:
    from lemurc.exchange import LoweredStage


@dataclass(frozen=True)
class PlannedStep:
    """One execution of a stage: counts of operations by kind, arithmetic operations, bytes read
    and written, predicted seconds.

    `weights` are bytes it reads of those; `memory` the most bytes of values and temporaries on
    its device while it runs, `held` those of values there when it has run. Null is not predicted.
    `paths` are the modules it comes from, `reads` and `makes` the values that go in and out.
    """

    stage: str
    device: str
    paths: tuple[str, ...]
    ops: dict[str, int]
    flops: int
    bytes: int
    seconds: float | None
    weights: int | None
    memory: int | None
    held: int | None
    reads: tuple[str, ...]
    makes: tuple[str, ...]


@dataclass(frozen=True)
class PlannedMemory:
    """Bytes on one device: `peak` is `weights` and `activations`, the values of a call."""

    weights: int
    activations: int
    peak: int


@dataclass(frozen=True)
class PlannedFunction:
    """One entry point. `seconds` are those of a call: stages and transfers one after another.

    With `micro_batches` above 1 the `transfers` and `steps` are those of one of so many parts of a
    call, which overlap; all else is of the call.
    """

    name: str
    seconds: float
    seconds_by_device: dict[str, float]
    transfer_seconds: float
    transfer_bytes: int
    crossings: int
    transfers: tuple[Transfer, ...]
    memory: dict[str, PlannedMemory]
    steps: tuple[PlannedStep, ...]
    order: OrderMemory | None = None
    micro_batches: int = 1


@dataclass(frozen=True)
class PlannedDevices:
    """The plan for one set of devices."""

    devices: tuple[str, ...]
    functions: tuple[PlannedFunction, ...]


@dataclass(frozen=True)
class PlanResult:
    """`plans` are in order of preference. `made_from` is "model" or "artifact".

    `illegal` are the targets that cannot run the whole model by themselves, and why.
    `explanations` are of the first plan, one per entry point, where they were asked for.
    """

    model: str
    made_from: str
    plans: tuple[PlannedDevices, ...]
    illegal: dict[str, str]
    notes: tuple[str, ...]
    explanations: tuple[ExplainedFunction, ...] = ()


def plan(
    model: Any,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    targets: str = "cpu",
    dynamic_shapes: Any = None,
    explain: str | Sequence[str] = (),
    html: str | Path | None = None,
    measured: str | Path | None = None,
    **options: Any,
) -> PlanResult:
    """The plans that `lemurc.compile` would make of the same arguments, or those that the
    artifact `model` (a path that ends in .lemur) has.

    `explain` names modules of the model, as pins do, whose placement is explained; "*" is all.
    `html` names a file for a page that shows the plan; in it, of a model, all is explained.
    `measured` is a file of `lemurc trace` or `lemurc bench --json`, to show there beside it.
    Targets are taken to compile every stage; one that turns out not to loses its plans in
    `compile`. Raises what `compile` raises before it generates code.
    """
    if html is not None:
        check_writable(html)
    globs = (explain,) if isinstance(explain, str) else tuple(explain)
    if isinstance(model, (str, Path)) and str(model).endswith(".lemur"):
        result = _of_artifact(model, options | {"explain": globs})
    else:
        shown = globs if html is None else (*globs, "*")
        result = _of_model(model, args, kwargs, targets, dynamic_shapes, options, shown)
    if html is not None:
        _write_page(result, html, measured)
    return result if globs else dataclasses.replace(result, explanations=())


def _of_model(
    model: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    targets: str,
    dynamic_shapes: Any,
    options: dict[str, Any],
    explain: tuple[str, ...],
) -> PlanResult:
    from lemurc.options import CompileOptions, chosen_options
    from lemurc.planning import plan_model

    chosen = chosen_options(options, "plan", CompileOptions)
    planned = plan_model(model, args, kwargs, targets, dynamic_shapes, chosen, explain)
    return PlanResult(
        model=planned.name,
        made_from="model",
        plans=_plans(planned.plans, planned.stages),
        illegal=planned.illegal,
        notes=planned.notes,
        explanations=planned.explanations,
    )


def _write_page(result: PlanResult, path: str | Path, measured: str | Path | None) -> None:
    from lemurc.tools.measured import read_measured
    from lemurc.tools.plan_page import page

    functions = {function.name: function for function in result.plans[0].functions}
    times = None if measured is None else read_measured(measured, functions)
    write_text(path, page(result, times))


def _of_artifact(path: str | Path, options: Mapping[str, Any]) -> PlanResult:
    from lemurc.runtime.artifact import Artifact

    given = sorted(name for name, value in options.items() if value and name != "progress")
    if given:
        raise UsageError(
            f"an artifact has its plans already: {', '.join(given)} cannot change them",
            code="plan-of-artifact",
            where=str(path),
            hint="give the model, or compile it again with these options",
        )
    with Artifact.open(path, check_weights=False) as artifact:
        manifest = artifact.manifest
    return PlanResult(
        model=manifest.model,
        made_from="artifact",
        plans=_plans(manifest.plans, manifest.stages),
        illegal={},
        notes=(),
    )


def _plans(
    plans: Sequence[Plan], stages: "Mapping[str, Stage | LoweredStage]"
) -> tuple[PlannedDevices, ...]:
    return tuple(
        PlannedDevices(
            devices=tuple(device.name for device in plan.devices),
            functions=tuple(_function(plan, name, stages) for name in plan.steps),
        )
        for plan in plans
    )


def _function(
    plan: Plan, name: str, stages: "Mapping[str, Stage | LoweredStage]"
) -> PlannedFunction:
    predicted = plan.predicted.get(name) or Prediction(0.0, 0, 0)
    steps = plan.steps[name]
    parts = plan.micro_batches[name].count if name in plan.micro_batches else 1
    seconds = _all_or_none(predicted.seconds_by_step, len(steps))
    memory = _all_or_none(predicted.memory_by_step, len(steps))
    return PlannedFunction(
        name=name,
        seconds=predicted.seconds,
        seconds_by_device=predicted.seconds_by_device,
        transfer_seconds=parts * sum(transfer.seconds for transfer in predicted.transfers),
        transfer_bytes=predicted.transfer_bytes,
        crossings=predicted.crossings,
        transfers=predicted.transfers,
        memory={
            device: PlannedMemory(m.weights, m.activations, m.peak)
            for device, m in predicted.memory.items()
        },
        order=predicted.order,
        steps=tuple(
            PlannedStep(
                stage=step.stage,
                device=step.device,
                paths=stages[step.stage].paths,
                ops=stages[step.stage].ops,
                flops=stages[step.stage].cost.flops,
                bytes=stages[step.stage].cost.bytes_read + stages[step.stage].cost.bytes_written,
                seconds=took,
                weights=None if needs is None else needs.weights,
                memory=None if needs is None else needs.peak,
                held=None if needs is None else needs.held,
                reads=stages[step.stage].inputs,
                makes=stages[step.stage].outputs,
            )
            for step, took, needs in zip(steps, seconds, memory, strict=True)
        ),
        micro_batches=parts,
    )


def _all_or_none(known: Sequence[Any], count: int) -> Sequence[Any]:
    """Artifacts of earlier versions lack some predictions."""
    return known if len(known) == count else [None] * count
