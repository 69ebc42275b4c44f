"""`lemurc probe -o system.json`"""

from collections.abc import Mapping

import click

from lemurc.system_file import DeviceDescription, LinkDescription
from lemurc.tools import flags
from lemurc.tools.probe import ProbeResult
from lemurc.tools.progress import progress
from lemurc.tools.report import emit
from lemurc.tools.table import columns, duration, number
from lemurc.units import size


@click.command("probe")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Where to write the description [default: the cache, where compile finds it].",
)
@click.option("--quick", is_flag=True, help="A few seconds, and f32 and f16 alone.")
@click.option(
    "--targets",
    metavar="A,B",
    help="What to measure, or to export for [default: all that is here; export: cpu].",
)
@click.option(
    "--export",
    metavar="FILE",
    help="Measure nothing; write the compiled programs for a machine without a compiler.",
)
@click.option("--with", "programs", metavar="FILE", help="Measure with what --export wrote.")
@flags.common
def command(
    output: str | None,
    quick: bool,
    targets: str | None,
    export: str | None,
    programs: str | None,
    as_json: bool,
) -> None:
    """Measure the devices here and the links between them, for --system and for compile."""
    import lemurc

    if export and (output or programs):
        raise click.UsageError("--export measures nothing: leave --output and --with out.")
    with progress() as report:
        result = lemurc.probe(
            output,
            quick=quick,
            targets=targets,
            export=export,
            programs=programs,
            report=lambda doing: report("measure", 0, 0, doing),
        )
    if as_json:
        emit("probe", result)
        return
    for line in lines(result):
        click.echo(line)


def lines(result: ProbeResult) -> list[str]:
    found = []
    if result.system is not None:
        header = ["device", "matmul", "memory", "launch", "call", "size", ""]
        found += columns([header, *(_device(device) for device in result.system.devices)])
        found += columns([_link(link) for link in result.system.links])
        for device in result.system.devices:
            found += [f"{device.name}: no {what}: {why}" for what, why in device.absent.items()]
    found += [f"{what}: {why}" for what, why in result.skipped.items()]
    return [*found, f"wrote {result.path} ({duration(result.seconds)})"]


def _device(device: DeviceDescription) -> list[str]:
    return [
        device.name,
        _rates(device.flops, "FLOP/s"),
        _rates(device.bandwidth, "B/s"),
        "" if device.launch is None else duration(device.launch),
        "" if device.call is None else duration(device.call),
        "" if device.memory is None else size(device.memory),
        device.description,
    ]


def _rates(rates: Mapping[str, float], unit: str) -> str:
    return ", ".join(f"{dtype} {number(rate)}{unit}" for dtype, rate in rates.items())


def _link(link: LinkDescription) -> list[str]:
    rates = ", ".join(f"{size(int(at))} {number(rate)}B/s" for at, rate in link.bandwidth.items())
    return [f"{link.src} to {link.dst}", duration(link.latency), rates]
