"""`lemurc compile MODEL --targets cpu,vulkan -o model.lemur`

Each flag but `--targets` and `--output` is a field of `lemurc.options.CompileOptions`.
"""

import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from lemurc.tools import flags, quiet
from lemurc.tools.progress import progress
from lemurc.tools.report import emit, missing_package
from lemurc.tools.table import columns, duration
from lemurc.units import size
from lemurc.verification import Verdict


@click.command("compile")
@click.argument("model")
@flags.model
@click.option(
    "-o", "--output", metavar="FILE", help="The artifact [default: MODEL's name with .lemur]."
)
@flags.planning
@click.option(
    "--verify/--no-verify",
    default=True,
    help="Compare with PyTorch before calling it done [default: verify].",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    help="Allowed error, relative to the largest value; is recorded.",
)
@click.option(
    "--external-weights",
    metavar="NAME",
    help="Put the weights into a file of this name beside the artifact.",
)
@click.option(
    "--golden",
    type=click.Choice(["random", "example", "none"]),
    default="random",
    show_default=True,
    help="Inputs to record with their outputs for `lemurc verify`.",
)
@click.option("--no-golden", is_flag=True, help="The same as --golden none.")
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Compiler processes at a time [default: the cores]."
)
@click.option(
    "--cache/--no-cache", default=True, help="Reuse stages compiled before [default: cache]."
)
@click.option(
    "--profile",
    is_flag=True,
    help="Time operations and stages on the devices here, and predict by that from now on.",
)
@click.option(
    "--pass-limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="Run only the first N optional steps, as `lemurc bisect` says.",
)
@click.option(
    "--save-temps",
    metavar="DIR",
    help="Keep here the IR after each pass, as numbered .mlir, and the inputs of iree-compile.",
)
@click.option("--strict", is_flag=True, help="Any fallback is an error.")
@flags.common
def command(model: str, as_json: bool, no_golden: bool, **choices: Any) -> None:
    """Compile MODEL and check it against PyTorch, or against ONNX's reference evaluator.

    MODEL is a torch.export archive (.pt2), a pickled module (.pt, with --trust-pickle), an
    ONNX model, MLIR, a Hugging Face folder, or file.py:NAME, where NAME is a module or a
    function that returns (module, example inputs).
    """
    import lemurc

    require_compiler()
    quiet.after_import()
    if no_golden:
        choices["golden"] = "none"
    choices["output"] = choices["output"] or default_output(model)
    with progress() as report:
        result = lemurc.compile(model, progress=report, **choices)
    if as_json:
        emit("compile", summary(result))
        return
    for line in lines(result):
        click.echo(line)


def require_compiler() -> None:
    """Say at once, and before any work, that this machine can only run artifacts."""
    for package in ("torch", "torch_mlir"):
        if importlib.util.find_spec(package) is None:
            raise missing_package(package)


def default_output(model: str) -> str:
    """`models/net.py:build` gives `net.lemur` in the current folder, as a compiler would."""
    path = re.sub(r"\.py:[\w.]+$", ".py", model.rstrip("/"))
    return f"{Path(path).stem}.lemur"


@dataclass(frozen=True)
class CompileSummary:
    """What `--json` prints of a CompileResult; `lemurc inspect` has the rest."""

    path: str
    placement: str
    verdicts: tuple[Verdict, ...]
    sizes: dict[str, int]
    seconds: dict[str, float]
    notes: tuple[str, ...]


def summary(result: Any) -> CompileSummary:
    return CompileSummary(
        path=str(result.path),
        placement=result.placement,
        verdicts=tuple(result.verdicts),
        sizes=dict(result.sizes),
        seconds=dict(result.seconds),
        notes=tuple(result.notes),
    )


def lines(result: Any) -> list[str]:
    """The closing summary: where it runs, whether it is right, what it cost, what is next."""
    return [
        *(f"note: {text}" for text in result.notes),
        f"placement: {result.placement}",
        *columns([_verdict(v) for v in result.verdicts]),
        *(["verified: no (--no-verify)"] if _unverified(result.verdicts) else []),
        f"sizes: {_table(result.sizes, size)}",
        f"times: {_table(result.seconds, duration)}",
        f"wrote {result.path}",
        f"next: lemurc run {result.path}",
    ]


def _unverified(verdicts: Sequence[Verdict]) -> bool:
    """--no-verify leaves only what was known without running anything."""
    return all(verdict.status == "not compiled" for verdict in verdicts)


def _verdict(verdict: Verdict) -> list[str]:
    """A target that did not run gets no error figure: nothing was compared there."""
    error = "" if verdict.status.startswith("not ") else f"largest error {verdict.max_error:.2g}"
    return [f"{verdict.target}:", verdict.status, error, verdict.detail]


def _table(values: Mapping[str, float], unit: Callable[[float], str]) -> str:
    return ", ".join(f"{name} {unit(value)}" for name, value in values.items())
