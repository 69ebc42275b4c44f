"""`lemurc verify model.lemur`"""

import click

from lemurc.errors import VerificationError
from lemurc.tools import flags
from lemurc.tools.report import emit
from lemurc.tools.table import columns
from lemurc.tools.verify import NOT_RUN, Check


@click.command("verify")
@click.argument("artifact", type=click.Path())
@flags.devices
@flags.imports
@flags.common
def command(
    artifact: str, devices: tuple[str, ...], imports: tuple[str, ...], as_json: bool
) -> None:
    """Compare ARTIFACT with its golden outputs on the devices that are here.

    With several devices, all of them together come first, then each alone. A target
    without a device is listed as not run, never as verified. Exit status 4 when an output
    differs, 6 when no device could run it.
    """
    import lemurc

    result = lemurc.verify(artifact, devices=devices or None, imports=imports)
    if as_json:
        emit("verify", result)
    else:
        for line in columns([_row(check) for check in result.checks]):
            click.echo(line)
    if not result.ok:
        wrong = [check.device for check in result.checks if check.status == "failed"]
        raise VerificationError(
            f"{artifact} is wrong on {', '.join(wrong)}",
            where=artifact,
            hint="run with --device to use another one; update its driver; if the driver is "
            "current, this is a bug in lemurc",
        )


def _row(check: Check) -> list[str]:
    error = "" if check.status == NOT_RUN else f"error {check.max_error:.2g}"
    limit = "" if check.status == NOT_RUN else f"allowed {check.allowed:.2g}"
    return [check.device, check.function, check.status, error, limit, check.detail]
