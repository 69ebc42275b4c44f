"""`lemurc devices`"""

import click

from lemurc.tools import flags
from lemurc.tools.report import emit
from lemurc.tools.table import columns


@click.command("devices")
@flags.common
def command(as_json: bool) -> None:
    """List the devices of this machine, and why others are not there."""
    import lemurc

    result = lemurc.devices()
    if as_json:
        emit("devices", result)
        return
    for line in columns([[d.name, d.description] for d in result.devices]):
        click.echo(line)
    for line in columns([[target, f"none: {why}"] for target, why in result.absent.items()]):
        click.echo(line)
