"""`lemurc bisect MODEL --targets cpu`"""

from typing import Any

import click

from lemurc.tools import flags
from lemurc.tools.bisect import COMMAND, BisectResult
from lemurc.tools.commands.compile import require_compiler
from lemurc.tools.progress import progress
from lemurc.tools.report import emit


@click.command("bisect")
@click.argument("model")
@flags.model
@click.option("--function", default="main", metavar="NAME", help="The entry point to look at.")
@click.option(
    "-o",
    "--output",
    default="bisect",
    show_default=True,
    metavar="FOLDER",
    help="Where the reproducer goes.",
)
@click.option("--tolerance", type=click.FloatRange(min=0), help="As for `lemurc compile`.")
@flags.common
def command(model: str, as_json: bool, **choices: Any) -> None:
    """Find the step of the compiler and the operator that make MODEL differ from PyTorch.

    MODEL and the flags are those of `lemurc compile`. Writes a program of one operator, where
    that suffices, its inputs, the IR after each pass, and the command that repeats it.
    """
    import lemurc

    require_compiler()
    with progress() as report:
        result = lemurc.bisect(model, progress=report, **choices)
    if as_json:
        emit("bisect", result)
        return
    for line in lines(result):
        click.echo(line)


def lines(result: BisectResult) -> list[str]:
    if result.ok:
        return [f"nothing differs: {result.function} is what eager computes"]
    step = f"{result.step}, number {result.step_number}" if result.step else "wrong without any"
    where = f" at {result.line}" if result.line else ""
    alone = "alone" if result.isolated else "after what comes before it"
    return [
        f"operator: {result.op}{where} ({alone})" if result.op else "operator: only all together",
        f"step: {step}",
        f"stage: {result.stage} on {result.device}",
        *(f"  {line.strip()}" for line in result.detail.splitlines()),
        f"reproducer: {result.folder}/{COMMAND}",
        f"  {result.command}",
    ]
