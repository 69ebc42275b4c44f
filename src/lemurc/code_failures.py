"""What a compiler could not compile, in the user's terms: the stage, the target, their lines.

IREE's own text names operations of its middle, in which nobody wrote a model; it goes to
the log, and stays in the folder of the reproducer.
"""

import logging
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lemurc.targets.iree_process import iree_compile

if TYPE_CHECKING:
    from lemurc.exchange import LoweredStage
    from lemurc.targets.compile import CompileFailure

logger = logging.getLogger(__name__)

_LINES_SHOWN = 3


def reason(failure: "CompileFailure", stage: "LoweredStage | None") -> str:
    """`IREE has no erf of f64 there (model.py:7)`; `stage` is None for weights alone."""
    logger.debug("%s", failure)
    lines = stage.lines if stage is not None else {}
    tool = failure.job.tool
    if tool != iree_compile():
        # What a plug-in's compiler says is written for its users.
        verb = "crashes on" if failure.crashed else "refuses"
        return f"{tool.name} {verb} it{_places(lines)}: {failure.diagnostic}"
    refused = re.search(r"'(\w+\.[\w.]+)'", failure.diagnostic)
    kind = re.search(r"-> \(?(?:vector<[\dx]*)?(\w+)>?\)?$", failure.diagnostic)
    name = refused[1] if refused and not failure.crashed else ""
    typed = {key: line for key, line in lines.items() if key.partition(" ")[0] == name}
    key = f"{name} {kind[1]}" if kind else ""
    if key in typed:
        operation, _, element = key.partition(".")[2].partition(" ")
        return f"IREE has no {operation} of {element} there{_places({key: typed[key]})}"
    if typed:
        return f"IREE cannot compile {name.partition('.')[2]} there{_places(typed)}"
    return f"IREE {'crashes on' if failure.crashed else 'refuses'} it{_places(lines)}"


def not_compiled(failure: "CompileFailure", stage: "LoweredStage | None") -> str:
    """A stage without code for a target."""
    return (
        f"{_stage(failure, stage)} cannot be compiled for {_target(failure)}: "
        f"{reason(failure, stage)}; reproducer: {failure.reproducer}"
    )


def compiled_plainly(failure: "CompileFailure", stage: "LoweredStage | None") -> str:
    """A stage whose code is slower than it was meant to be."""
    return (
        f"{_stage(failure, stage)} for {_target(failure)} stepped down to plain flags, so it is "
        f"right but slower: as it was tuned, {reason(failure, stage)}; "
        f"reproducer: {failure.reproducer}"
    )


def _stage(failure: "CompileFailure", stage: "LoweredStage | None") -> str:
    if stage is None:
        return "what is computed of the weights alone"
    kinds = ", ".join(f"{kind} x{n}" if n > 1 else kind for kind, n in stage.ops.items())
    return f"stage {failure.job.name} ({kinds})" if kinds else f"stage {failure.job.name}"


def _target(failure: "CompileFailure") -> str:
    return f"{failure.job.target}:{failure.job.arch}"


def _places(lines: Mapping[str, str]) -> str:
    places = list(dict.fromkeys(lines.values()))
    more = ", ..." if len(places) > _LINES_SHOWN else ""
    return f" ({', '.join(places[:_LINES_SHOWN])}{more})" if places else ""
