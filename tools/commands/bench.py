"""`lemurc bench model.lemur`"""

import click

from lemurc.tools import flags
from lemurc.tools.bench import BenchResult, Timing
from lemurc.tools.report import emit
from lemurc.tools.table import columns, duration

MOST_STEPS = 12
"""Rows of predicted against measured in the text."""


@click.command("bench")
@click.argument("artifact", type=click.Path())
@flags.inputs
@flags.devices
@flags.simulate
@flags.entry_point
@click.option("--warmup", type=click.IntRange(min=0), default=5, show_default=True)
@click.option("--iterations", type=click.IntRange(min=1), help="Calls to time.")
@click.option(
    "--duration",
    metavar="TIME",
    default="3s",
    show_default=True,
    callback=flags.seconds,
    help="How long to time when --iterations is not given.",
)
@click.option("--per-device", is_flag=True, help="Measure each device alone too.")
@click.option("--stream", is_flag=True, help="Measure a stream of requests too, several at a time.")
@flags.imports
@flags.strict
@flags.common
def command(
    artifact: str,
    inputs: tuple[str, ...],
    devices: tuple[str, ...],
    simulate: str | None,
    function: str | None,
    warmup: int,
    iterations: int | None,
    duration: float,
    per_device: bool,
    stream: bool,
    imports: tuple[str, ...],
    strict: bool,
    as_json: bool,
) -> None:
    """Measure ARTIFACT: NumPy in, NumPy out, one call after another."""
    import lemurc

    result = lemurc.bench(
        artifact,
        inputs=inputs,
        devices=devices or None,
        simulate=simulate,
        function=function,
        warmup=warmup,
        iterations=iterations,
        duration=duration,
        per_device=per_device,
        stream=stream,
        strict=strict,
        imports=imports,
    )
    if as_json:
        emit("bench", result)
    else:
        _print(result)


def _print(result: BenchResult) -> None:
    header = ["devices", "median", "p90", "min", "calls/s", "calls", "placement"]
    for line in columns([header, *(_row(timing) for timing in result.timings)]):
        click.echo(line)
    for timing in result.timings:
        for line in _compared(timing):
            click.echo(line)
        if timing.stream is not None:
            devices = ", ".join(timing.devices) or "all"
            click.echo(
                f"stream on {devices}: {timing.stream.per_second:.4g} requests/s, "
                f"up to {timing.stream.depth} in flight"
            )
        if timing.restarts:
            click.echo(
                f"the state was full {timing.restarts} times: the bench went on from its start"
            )
    click.echo(f"inputs: {', '.join(result.shapes)} ({result.inputs_from})")
    threads = f"{result.threads} CPU worker threads"
    click.echo(f"on {result.processor}, {result.cores} cores, {threads}")


def _compared(timing: Timing) -> list[str]:
    """Predicted against measured, for the slowest steps; --json has all."""
    if timing.mean_error is None:
        return []
    slowest = sorted(timing.steps, key=lambda step: -step.measured)[:MOST_STEPS]
    rows = [["stage", "device", "predicted", "measured", "error"]]
    for step in timing.steps:
        if step in slowest and step.predicted is not None:
            error = f"{step.predicted / step.measured - 1:+.0%}"
            times = [duration(step.predicted), duration(step.measured)]
            rows.append([step.stage, step.device, *times, error])
    hidden = len(timing.steps) - len(slowest)
    more = f"; {hidden} quicker ones are not shown" if hidden else ""
    total = f"mean error {timing.mean_error:.1%} over {len(timing.steps)} stages{more}"
    return [*columns(rows), total]


def _row(timing: Timing) -> list[str]:
    return [
        ", ".join(timing.devices) or "all",
        duration(timing.median),
        duration(timing.p90),
        duration(timing.minimum),
        f"{timing.throughput:.4g}",
        str(timing.calls),
        timing.placement,
    ]
