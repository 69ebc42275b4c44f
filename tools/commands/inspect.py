"""`lemurc inspect model.lemur`"""

from collections.abc import Sequence

import click

from lemurc.manifest import TensorSpec
from lemurc.tools import flags
from lemurc.tools.inspect import FunctionSummary, InspectResult, PlanSummary, StageSummary
from lemurc.tools.report import emit
from lemurc.tools.table import columns, duration, number
from lemurc.units import size


@click.command("inspect")
@click.argument("artifact", type=click.Path())
@flags.common
def command(artifact: str, as_json: bool) -> None:
    """Show the functions, stages, plans and sizes of ARTIFACT."""
    import lemurc

    result = lemurc.inspect(artifact)
    if as_json:
        emit("inspect", result)
        return
    for line in _lines(result):
        click.echo(line)


def _lines(result: InspectResult) -> list[str]:
    targets = [f"{name} ({', '.join(archs)})" for name, archs in result.targets.items()]
    producer = [f"{name} {version}" for name, version in sorted(result.producer.items())]
    sizes = [f"{kind} {size(count)}" for kind, count in sorted(result.sizes.items())]
    lines = [
        f"{result.model}: format {result.format}, made by {', '.join(producer) or 'unknown'}",
        f"targets: {', '.join(targets)}",
        f"sizes: {', '.join(sizes)}",
    ]
    if result.imports:
        lines.append(f"defined by: {', '.join(result.imports)}")
    for function in result.functions:
        lines += ["", *_function(function)]
    lines += ["", "stages, in order:", *columns([_stage(s) for s in result.stages], "  ")]
    lines += ["", "plans, best first:"]
    for plan in result.plans:
        lines += _plan(plan)
    return lines


def _function(function: FunctionSummary) -> list[str]:
    rows = [["input", *_tensor(spec)] for spec in function.inputs]
    rows += [["output", *_tensor(spec)] for spec in function.outputs]
    rows += [["state", name, "", ""] for name in function.state]
    extra = "" if function.golden else " (no golden outputs)"
    return [f"function {function.name}{extra}:", *columns(rows, "  ")]


def _tensor(spec: TensorSpec) -> list[str]:
    return [spec.name, spec.dtype, _shape(spec) or "scalar"]


def _shape(spec: TensorSpec) -> str:
    sizes = []
    for dim in spec.shape:
        if isinstance(dim, int):
            sizes.append(str(dim))
        else:
            sizes.append(f"{dim.symbol}:{dim.min}..{dim.max if dim.max is not None else ''}")
    return "x".join(sizes)


def _stage(stage: StageSummary) -> Sequence[str]:
    ops = ", ".join(f"{kind} x{count}" for kind, count in sorted(stage.ops.items()))
    code = ", ".join(f"{name} {size(count)}" for name, count in stage.modules.items())
    if stage.host:
        code = "host (PyTorch)"
    moved = stage.cost.bytes_read + stage.cost.bytes_written
    return [
        stage.name,
        f"{number(stage.cost.flops)}flop",
        f"{size(moved)} moved",
        f"{stage.parameters} weights",
        code,
        ops,
    ]


def _plan(plan: PlanSummary) -> list[str]:
    lines = [f"  on {', '.join(plan.devices)}"]
    for name, steps in plan.steps.items():
        lines.append(
            f"    {name}: {duration(plan.predicted_seconds.get(name, 0.0))} predicted, "
            f"{plan.crossings.get(name, 0)} crossings, "
            f"{size(plan.transfer_bytes.get(name, 0))}: {', '.join(steps)}"
        )
    return lines
