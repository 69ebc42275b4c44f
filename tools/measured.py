"""What a file says that stages took: `lemurc trace` or `lemurc bench --json` wrote it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lemurc.errors import UsageError
from lemurc.tools.plan import PlannedFunction
from lemurc.tools.timeline import Span, predicted


@dataclass(frozen=True)
class Measured:
    """A measured call of `function`: `source` says how it was measured."""

    function: str
    source: str
    spans: tuple[Span, ...]
    seconds: float


def read_measured(path: str | Path, functions: Mapping[str, PlannedFunction]) -> Measured:
    """UsageError unless `path` is such a file, of the stages of one of `functions`."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        if "traceEvents" in document:
            found = _of_trace(document)
        else:
            found = _of_bench(document, functions)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise UsageError(
            f"{path} holds no times: {error}",
            code="bad-measured",
            where=str(path),
            hint="give what `lemurc trace -o FILE` or `lemurc bench --json` wrote",
        ) from error
    planned = functions.get(found.function)
    stages = {step.stage for step in planned.steps} if planned is not None else set()
    ran = {span.name for span in found.spans if span.kind == "stage"}
    if stages != ran:
        raise UsageError(
            f"{path} is of {found.function} with the stages {_listed(ran)}, "
            f"and the plan has {_listed(stages)}",
            code="bad-measured",
            where=str(path),
            hint="measure the artifact that this plan is of, or plan the artifact itself",
        )
    return found


def _of_trace(document: Any) -> Measured:
    """The call of median length."""
    events = document["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    slices = [e for e in events if e["ph"] == "X"]
    calls = sorted(
        (e["dur"], number) for number, e in enumerate(e for e in slices if e["cat"] == "call")
    )
    number = calls[len(calls) // 2][1]
    call = [e for e in slices if e["cat"] == "call"][number]
    spans = []
    for event in slices:
        if event["args"].get("call") != number or event["cat"] not in ("stage", "transfer"):
            continue
        begin = (event["ts"] - call["ts"]) * 1e-6
        stage, device = event["cat"] == "stage", names[event["pid"]]
        spans.append(
            Span(
                kind=event["cat"],
                name=event["args"]["stage" if stage else "value"],
                lane=device if stage or "->" in device else f"{device}, copies",
                begin=begin,
                end=begin + event["dur"] * 1e-6,
                bytes=None if stage else event["args"]["bytes"],
            )
        )
    about = document["otherData"]
    source = f"lemurc trace, the median of {len(calls)} calls"
    return Measured(about["function"], source, tuple(spans), call["dur"] * 1e-6)


def _of_bench(document: Any, functions: Mapping[str, PlannedFunction]) -> Measured:
    """Stages as they were measured one at a time; transfers as predicted."""
    timing, name = document["timings"][0], document["function"]
    seconds = {str(step["stage"]): float(step["measured"]) for step in timing["steps"]}
    planned = functions.get(name)
    spans = (
        predicted(planned, seconds)
        if planned is not None and {step.stage for step in planned.steps} == set(seconds)
        else tuple(Span("stage", stage, "", 0.0, taken) for stage, taken in seconds.items())
    )
    source = "lemurc bench, stages one at a time; transfers as predicted"
    return Measured(name, source, spans, float(timing["median"]))


def _listed(stages: set[str]) -> str:
    return ", ".join(sorted(stages)) or "none"
