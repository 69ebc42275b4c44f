"""`lemurc run model.lemur`"""

import click

from lemurc.errors import VerificationError
from lemurc.tools import flags
from lemurc.tools.report import emit, note
from lemurc.tools.run import Output, RunResult
from lemurc.tools.table import columns, duration


@click.command("run")
@click.argument("artifact", type=click.Path())
@flags.inputs
@flags.devices
@flags.simulate
@flags.entry_point
@click.option("--output", metavar="FILE.npz", help="Write the outputs to this file.")
@click.option("--trace", metavar="FILE.json", help="Write a trace of the call, for Perfetto.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    callback=flags.seconds,
    help="Give the call up after this long (2, 500ms, 1m).",
)
@click.option(
    "--load-timeout",
    metavar="SECONDS",
    callback=flags.seconds,
    help="Do without a device that takes longer than this to load one of its stages.",
)
@flags.imports
@flags.strict
@flags.common
def command(
    artifact: str,
    inputs: tuple[str, ...],
    devices: tuple[str, ...],
    simulate: str | None,
    function: str | None,
    output: str | None,
    trace: str | None,
    timeout: float | None,
    load_timeout: float | None,
    imports: tuple[str, ...],
    strict: bool,
    as_json: bool,
) -> None:
    """Run ARTIFACT once on the devices that are here.

    Without --input it takes the golden inputs of the artifact and compares the result
    with the golden outputs; a difference is exit status 4.
    """
    import lemurc

    result = lemurc.run(
        artifact,
        inputs=inputs,
        devices=devices or None,
        simulate=simulate,
        function=function,
        output=output,
        strict=strict,
        imports=imports,
        trace=trace,
        timeout=timeout,
        load_timeout=load_timeout,
    )
    if as_json:
        emit("run", result)
    else:
        _print(result)
    if not result.ok:
        wrong = next(comparison for comparison in result.comparisons if not comparison.ok)
        raise VerificationError(
            f"output {wrong.name!r} differs from its golden value: error {wrong.error:.3g}, "
            f"allowed {wrong.allowed:.3g} of the largest value. {wrong.detail}".rstrip(),
            where=artifact,
            hint="`lemurc verify` tells which devices are wrong",
        )


def _print(result: RunResult) -> None:
    if result.inputs_from == "drawn":
        note("no --input and no golden inputs: the inputs were drawn from a fixed seed")
    header = ["output", "dtype", "shape", "min", "mean", "max", "not finite"]
    for line in columns([header, *(_row(output) for output in result.outputs)]):
        click.echo(line)
    if result.comparisons and result.ok:
        worst = max(comparison.error for comparison in result.comparisons)
        click.echo(f"golden outputs: equal, largest error {worst:.2g} of the largest value")
    click.echo(f"placement: {result.placement}")
    click.echo(f"load {duration(result.load_seconds)}, first call {duration(result.seconds)}")
    if result.saved:
        click.echo(f"outputs written to {result.saved}")


def _row(output: Output) -> list[str]:
    numbers = ["" if x is None else f"{x:.5g}" for x in (output.min, output.mean, output.max)]
    shape = "x".join(map(str, output.shape)) or "scalar"
    return [output.name, output.dtype, shape, *numbers, str(output.not_finite or "")]
