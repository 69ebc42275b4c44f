"""`lemurc conformance --target X`"""

import click

from lemurc.errors import VerificationError
from lemurc.tools import flags
from lemurc.tools.conformance import FAIL, NOT_OFFERED, PASS, CaseResult, ConformanceResult
from lemurc.tools.progress import progress
from lemurc.tools.report import emit
from lemurc.tools.table import columns, duration


@click.command("conformance")
@click.option(
    "--target",
    required=True,
    metavar="TARGET",
    help="The target, with an architecture if need be: cpu, vulkan:llvmpipe, one of a package.",
)
@click.option("--device", metavar="DEVICE", help="The device [default: the target's first].")
@click.option(
    "--case",
    "cases",
    multiple=True,
    metavar="PATTERN",
    help="Only cases of such names, such as 'products/*'; repeatable.",
)
@flags.common
def command(target: str, device: str | None, cases: tuple[str, ...], as_json: bool) -> None:
    """Compare a target and a device of it with eager, case by case.

    What the target declares that it lacks is listed as not offered. Exit status 4 when a case
    fails, 6 when there is no device.
    """
    import lemurc

    with progress() as report:
        result = lemurc.conformance(target, device=device, cases=cases, report=report)
    if as_json:
        emit("conformance", result)
    else:
        _print(result)
    if not result.ok:
        count = result.count(FAIL)
        raise VerificationError(
            f"{target} is not conformant: {count} of {len(result.cases)} cases failed"
            if count
            else f"{target} offers nothing of what was asked",
            code="not-conformant",
            where=result.device,
            hint=f"run one with: lemurc conformance --target {target} --case NAME",
        )


def _print(result: ConformanceResult) -> None:
    for line in columns([_row(case) for case in result.cases]):
        click.echo(line)
    by = f", of {result.package}" if result.package else ""
    click.echo(
        f"{result.target} on {result.device} ({result.description}{by}): "
        f"{result.count(PASS)} passed, {result.count(FAIL)} failed, "
        f"{result.count(NOT_OFFERED)} not offered"
    )


def _row(case: CaseResult) -> list[str]:
    return [case.name, case.status, duration(case.seconds), case.detail.partition("\n")[0]]
