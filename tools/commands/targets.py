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
    for name, why in result.broken.items():
        click.echo(f"{name}  cannot be used: {why}")
    for row in result.targets:
        for code in dict.fromkeys(row.same_as.values()):
            names = [name for name, other in row.same_as.items() if other == code]
            click.echo(f"{row.name}: {', '.join(names)} run the code of {code}")
    click.echo(
        "* what is compiled for when only the target is named; host is what this machine has:"
    )
    click.echo("  for cpu its level of instructions, for vulkan its first GPU, else baseline")
    click.echo("write --targets cpu,cuda or, with architectures, cpu:host,cuda:sm_80+sm_90")


def _row(row: TargetRow) -> list[str]:
    names = [*(name for name in row.default if name not in row.archs), *row.archs]
    archs = [name + "*" * (name in row.default) for name in names]
    return [row.name, row.driver or row.package, ", ".join(archs), ", ".join(row.aliases)]
