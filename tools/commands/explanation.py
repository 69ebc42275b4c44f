"""How `lemurc plan --explain` tells a person what it found."""

from collections.abc import Sequence

from lemurc.explanation import (
    Alternative,
    ExplainedFunction,
    ExplainedModule,
    ExplainedOperation,
    Neighbour,
)
from lemurc.tools.table import columns, counted, duration, number
from lemurc.units import size


def lines(explained: ExplainedFunction) -> list[str]:
    found = [
        f"why, in {explained.function}: placed for {explained.objective} ({explained.solver}); "
        f"operations and transfers take {duration(explained.call_seconds)}"
    ]
    for module in explained.modules:
        found += _module(module, explained.call_seconds)
    for operation in explained.operations:
        found += ["", *_operation(operation, explained.call_seconds)]
    return found


def _module(module: ExplainedModule, now: float) -> list[str]:
    where = ", ".join(f"{count} on {device}" for device, count in module.devices.items())
    rows = [_alternative(item, now) for item in module.alternatives]
    return [
        f"{module.glob}: {counted(module.operations, 'operation')}, {where}",
        *columns(rows, "  all on "),
    ]


def _operation(operation: ExplainedOperation, now: float) -> list[str]:
    paths = ", ".join(operation.paths) or "the root module"
    found = [
        f"{operation.value} {operation.kind} of {paths}"
        + (f", {operation.line}" if operation.line else ""),
        f"  on {operation.device} in {operation.stage or 'no stage'}: {_why(operation, now)}; "
        f"{number(operation.flops)}flop, {size(operation.bytes)} moved, "
        f"{duration(operation.seconds)}",
        *columns([_alternative(item, now) for item in operation.alternatives], "  on "),
    ]
    if operation.split:
        found.append(f"  {operation.split}")
    if operation.copies:
        found.append(f"  computed again in {', '.join(operation.copies)}, rather than sent")
    return found + [f"  {_apart(neighbour)}" for neighbour in operation.apart]


def _why(operation: ExplainedOperation, now: float) -> str:
    if operation.why == "pinned":
        return f"pinned by {operation.pins[-1]}" if operation.pins else "pinned by the model"
    rival = min(
        (a.call_seconds for a in operation.alternatives if a.call_seconds is not None),
        default=None,
    )
    ignored = f" (not for {', '.join(operation.pins)})" if operation.pins else ""
    if operation.why == "not legal elsewhere" or rival is None:
        return f"no other device may run it{ignored}"
    if rival < now:
        return f"the best place found for it together with the others{ignored}"
    return f"cheapest{ignored}"


def _alternative(item: Alternative, now: float) -> Sequence[str]:
    if item.seconds is None or item.call_seconds is None:
        return [f"{item.device}:", f"not possible, {item.why_not}", ""]
    change = item.call_seconds - now
    direction = "more" if change >= 0 else "less"
    fits = "" if item.fits else "; the memory would not do"
    return [
        f"{item.device}:",
        f"{duration(item.seconds)},",
        f"the call {duration(abs(change))} {direction}{fits}",
    ]


def _apart(neighbour: Neighbour) -> str:
    name = neighbour.kind + (f" ({neighbour.path})" if neighbour.path else "")
    if neighbour.role == "group":
        return f"taken out of a fused group: {neighbour.why}"
    what = "which reads it" if neighbour.role == "reader" else "which it reads"
    return f"not fused with {name}, {what}: {neighbour.why}"
