"""`lemurc trace model.lemur -o trace.json`"""

import click

from lemurc.tools import flags
from lemurc.tools.report import emit
from lemurc.tools.table import columns, duration
from lemurc.tools.trace import TraceResult, TraceTrack
from lemurc.units import size


@click.command("trace")
@click.argument("artifact", type=click.Path())
@click.option(
    "-o",
    "--output",
    metavar="FILE.json",
    default="trace.json",
    show_default=True,
    help="Where the trace goes; open it in https://ui.perfetto.dev or chrome://tracing.",
)
@flags.inputs
@flags.devices
@flags.simulate
@flags.entry_point
@click.option("--calls", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--warmup", type=click.IntRange(min=0), default=3, show_default=True)
@click.option("--stream", is_flag=True, help="Have several calls in flight, as a stream has.")
@flags.imports
@flags.strict
@flags.common
def command(
    artifact: str,
    output: str,
    inputs: tuple[str, ...],
    devices: tuple[str, ...],
    simulate: str | None,
    function: str | None,
    calls: int,
    warmup: int,
    stream: bool,
    imports: tuple[str, ...],
    strict: bool,
    as_json: bool,
) -> None:
    """Record calls of ARTIFACT on one timeline over all devices.

    Stages carry the names of their modules, transfers their bytes, and arrows lead from what
    makes a value to what reads it. Calls run as they always do.
    """
    import lemurc

    result = lemurc.trace(
        artifact,
        output=output,
        inputs=inputs,
        devices=devices or None,
        simulate=simulate,
        function=function,
        calls=calls,
        warmup=warmup,
        stream=stream,
        strict=strict,
        imports=imports,
    )
    if as_json:
        emit("trace", result)
        return
    for line in _lines(result):
        click.echo(line)


def _lines(result: TraceResult) -> list[str]:
    rows = [["device", "stages", "transfers", "moved"], *(_row(track) for track in result.tracks)]
    return [
        f"{result.function}: {result.calls} calls of {duration(result.median)} (median), "
        f"inputs: {result.inputs_from}",
        *columns(rows, "  "),
        _late(result),
        f"placement: {result.placement}",
        f"wrote {result.output}: open it in https://ui.perfetto.dev",
    ]


def _late(result: TraceResult) -> str:
    if not result.late_p90:
        return "times are those of the simulation"
    return (
        f"times are late by {duration(result.late_median)}, "
        f"one in ten by more than {duration(result.late_p90)}"
    )


def _row(track: TraceTrack) -> list[str]:
    return [
        track.device,
        duration(track.stages) if track.stages else "-",
        duration(track.transfers) if track.transfers else "-",
        size(track.bytes) if track.bytes else "-",
    ]
