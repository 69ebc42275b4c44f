"""`lemurc doctor`"""

import click

from lemurc.tools import flags
from lemurc.tools.doctor import DoctorResult, Item
from lemurc.tools.report import emit
from lemurc.tools.table import columns


@click.command("doctor")
@flags.common
def command(as_json: bool) -> int:
    """Check this machine. Exit status 0 when artifacts can run here, else 6."""
    import lemurc

    result = lemurc.doctor()
    if as_json:
        emit("doctor", result)
    else:
        _print(result)
    return 0 if result.can_run else 6


def _print(result: DoctorResult) -> None:
    for line in columns([_row(item) for item in result.items]):
        click.echo(line)
    click.echo(f"run artifacts: {'yes' if result.can_run else 'NO'}")
    click.echo(f"compile models: {'yes' if result.can_compile else 'NO'}")


def _row(item: Item) -> list[str]:
    mark = "ok" if item.ok else "MISSING" if item.needed_for else "no"
    wanted = f"(wanted {item.wanted})" if item.wanted and not item.ok else ""
    fix = f"fix: {item.fix}" if item.fix else ""
    return [mark, item.name, item.found, wanted, fix]
