"""`lemurc targets`"""

import click

from lemurc.tools import flags
from lemurc.tools.report import emit
from lemurc.tools.table import columns
from lemurc.tools.targets import TargetRow, targets


@click.command("targets")
@flags.common
def command(as_json: bool) -> None:
    """List what --targets may name; an asterisk marks the default architectures."""
    result = targets()
    if as_json:
        emit("targets", result)
        return
    header = ["target", "driver", "architectures", "also called"]
    for line in columns([header, *(_row(row) for row in result.targets)]):
        click.echo(line)
    click.echo("write --targets cpu,cuda or, with architectures, cpu:host,cuda:sm_80+sm_89")


def _row(row: TargetRow) -> list[str]:
    archs = [arch + "*" * (arch in row.default) for arch in row.archs]
    return [row.name, row.driver, ", ".join(archs), ", ".join(row.aliases)]
