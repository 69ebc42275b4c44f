"""`lemurc plan MODEL --targets cpu,vulkan`, `lemurc plan model.lemur`"""

from collections.abc import Sequence
from typing import Any

import click

from lemurc.tools import flags, quiet
from lemurc.tools.commands import explanation
from lemurc.tools.plan import PlannedDevices, PlannedFunction, PlannedStep, PlanResult
from lemurc.tools.progress import progress
from lemurc.tools.report import emit
from lemurc.tools.table import columns, counted, duration, number
from lemurc.units import size

MOST_KINDS = 4
MOST_TRANSFERS = 12
"""Rows and words of the text; --json has all."""


@click.command("plan")
@click.argument("model")
@flags.model
@flags.planning
@click.option(
    "--explain",
    metavar="GLOB",
    multiple=True,
    help="Say of these modules' operations why they are where they are, and what else would cost.",
)
@click.option("--html", metavar="FILE", help="Write a page that shows the plan; needs no network.")
@click.option(
    "--measured",
    metavar="FILE",
    help="Times to show beside the predicted ones: of `lemurc trace` or `lemurc bench --json`.",
)
@click.option("--strict", is_flag=True, help="Any fallback is an error.")
@flags.common
def command(
    model: str, as_json: bool, html: str | None, measured: str | None, **choices: Any
) -> None:
    """Show where MODEL would run, how long a call would take and what memory it needs.

    Nothing is compiled and no device is opened. MODEL is what `compile` takes, or an artifact,
    whose plans are shown.
    """
    import lemurc
    from lemurc.tools.commands.compile import require_compiler

    if measured is not None and html is None:
        raise click.UsageError("--measured is for the page: give --html FILE too")
    choices |= {"html": html, "measured": measured}
    if model.endswith(".lemur"):
        given = {name: value for name, value in choices.items() if _is_given(name)}
        result = lemurc.plan(model, **given)
    else:
        require_compiler()
        quiet.after_import()
        with progress() as report:
            result = lemurc.plan(model, progress=report, **choices)
    if as_json:
        emit("plan", result)
        return
    for line in lines(result):
        click.echo(line)
    if html is not None:
        click.echo(f"wrote {html}")


def _is_given(name: str) -> bool:
    return (
        click.get_current_context().get_parameter_source(name)
        is click.core.ParameterSource.COMMANDLINE
    )


def lines(result: PlanResult) -> list[str]:
    """The preferred plan in full, the others in a line each."""
    first, *others = result.plans
    found = [f"note: {text}" for text in result.notes]
    found.append(f"{result.model} on {', '.join(first.devices)}:")
    for function in first.functions:
        found += ["", *_function(function)]
    if others:
        found += ["", "other plans:", *columns([_short(plan) for plan in others], "  ")]
    for explained in result.explanations:
        found += ["", *explanation.lines(explained)]
    return found


def _function(function: PlannedFunction) -> list[str]:
    header = [
        "stage",
        "device",
        "predicted",
        "flop",
        "moved",
        "weights",
        "memory",
        "operations",
        "modules",
    ]
    rows = [header, *(_step(step) for step in function.steps)]
    parts = function.micro_batches
    cut = f", in {parts} micro-batches; stages and transfers of one" if parts > 1 else ""
    return [
        f"function {function.name}: {duration(function.seconds)} a call predicted{cut}",
        *columns(rows, "  "),
        f"  time: {_times(function)}",
        *_transfers(function),
        *(
            f"  memory of {device}: {size(memory.peak)} at most, {size(memory.weights)} of weights "
            f"and {size(memory.activations)} of values"
            for device, memory in function.memory.items()
        ),
        *_order(function),
    ]


def _order(function: PlannedFunction) -> list[str]:
    """What the order of operations came to."""
    order = function.order
    if order is None:
        return []
    least = (
        "which no order is below"
        if order.peak == order.bound
        else (f"no order needs less than {size(order.bound)}")
    )
    program = (
        f", {size(order.program)} in the program's order" if order.peak < order.program else ""
    )
    return [f"  order: {size(order.peak)} of values at once{program}, {least}"]


def _step(step: PlannedStep) -> Sequence[str]:
    return [
        step.stage,
        step.device,
        "-" if step.seconds is None else duration(step.seconds),
        number(step.flops),
        size(step.bytes),
        "-" if step.weights is None else size(step.weights),
        "-" if step.memory is None else size(step.memory),
        _kinds(step.ops),
        ", ".join(step.paths) or "-",
    ]


def _kinds(ops: dict[str, int]) -> str:
    """The most frequent kinds of operation."""
    most = sorted(ops.items(), key=lambda item: (-item[1], item[0]))
    rest = sum(count for _, count in most[MOST_KINDS:])
    shown = [f"{kind} x{count}" for kind, count in most[:MOST_KINDS]]
    return ", ".join([*shown, *([f"{rest} more"] if rest else [])])


def _times(function: PlannedFunction) -> str:
    parts = [f"{name} {duration(taken)}" for name, taken in function.seconds_by_device.items()]
    if function.crossings:
        parts.append(f"transfers {duration(function.transfer_seconds)}")
    return ", ".join(parts) or "nothing runs"


def _transfers(function: PlannedFunction) -> list[str]:
    if not function.crossings:
        return ["  transfers: none"]
    what = f"{counted(function.crossings, 'transfer')}, {size(function.transfer_bytes)}"
    largest = sorted(function.transfers, key=lambda item: -item.seconds)[:MOST_TRANSFERS]
    rows = [
        [
            item.value,
            f"{item.source} -> {item.target}",
            size(item.bytes),
            duration(item.seconds),
            f"for {_reader(function, item.before)}",
        ]
        for item in function.transfers
        if item in largest
    ]
    hidden = function.crossings - len(rows)
    more = f"; {hidden} quicker ones are not shown" if hidden else ""
    return [f"  {what}{more}:", *columns(rows, "    ")]


def _reader(function: PlannedFunction, step: int) -> str:
    return function.steps[step].stage if step < len(function.steps) else "the caller"


def _short(plan: PlannedDevices) -> list[str]:
    functions = plan.functions
    memory: dict[str, int] = {}
    for function in functions:
        for device, needed in function.memory.items():
            memory[device] = max(memory.get(device, 0), needed.peak)
    return [
        f"on {', '.join(plan.devices)}:",
        ", ".join(f"{f.name} {duration(f.seconds)}" for f in functions),
        f"{counted(sum(len(f.steps) for f in functions), 'stage')},",
        f"{counted(sum(f.crossings for f in functions), 'transfer')},",
        f"{size(sum(f.transfer_bytes for f in functions))} moved;",
        "memory " + ", ".join(f"{device} {size(peak)}" for device, peak in memory.items()),
    ]
