"""The refusal of operations that cannot be compiled: all of them, not the first.

Each distinct one is reported with its number, the user's lines, and a way out.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from torch_mlir import ir

from lemurc.dialects.locations import module_path, python_line
from lemurc.errors import UnsupportedModelError
from lemurc.passes.lone_lowering import operator_name, unlowered

_WAYS_OUT = {
    "grouped_mm": 'call model.set_experts_implementation("batched_mm") before compiling',
    "aten.index.Tensor": "a boolean index has a result whose size depends on values: use "
    "torch.where with the mask",
    "aten.nonzero": "its result has a size that depends on values: use torch.where with a mask",
    "aten.masked_select": "its result has a size that depends on values: multiply by the mask",
    "aten.item": "a number read from a tensor cannot steer the program: keep it a tensor",
    "aten._fft_c2c": "apply the transform before the model, or as a matrix product",
    "aten.sort.stable": "use torch.sort without stable=True, or torch.topk",
}
_ON_THE_HOST = "or let PyTorch run them on the CPU: --allow-host-ops"
_LINES_SHOWN = 5


def unsupported_operations(module: ir.Operation, message: str) -> UnsupportedModelError | None:
    """The error to show, or None when each operation lowers alone (then it is our bug)."""
    found = unlowered(module)
    if not found:
        named = re.search(r"failed to legalize operation '(torch\.[\w.]+)'", message)
        return _refusal({named[1]: ["?"]}, {}, "") if named is not None else None
    return refusal(found, {}, _ON_THE_HOST)


def refusal(
    operations: Iterable[ir.Operation], reasons: Mapping[str, str], way_out: str
) -> UnsupportedModelError:
    """All `operations` by name; `reasons` say of some why PyTorch cannot run them either."""
    lines: dict[str, list[str]] = defaultdict(list)
    for operation in operations:
        place = python_line(operation.location) or module_path(operation.location)
        lines[operator_name(operation)].append(place or "?")
    return _refusal(lines, reasons, way_out)


def _refusal(
    lines: Mapping[str, list[str]], reasons: Mapping[str, str], way_out: str
) -> UnsupportedModelError:
    listed = [
        f"{name} x{len(places)} at {_shortened(places)}"
        + (f", not on the host either: {reasons[name]}" if name in reasons else "")
        for name, places in sorted(lines.items())
    ]
    hints = [f"{name}: {way}" for key, way in _WAYS_OUT.items() for name in lines if key in name]
    otherwise = (
        "rewrite these lines with other PyTorch operations, or leave them out of the compiled "
        "module and run them in eager mode"
    )
    return UnsupportedModelError(
        "the model uses operations that cannot be compiled:\n  " + "\n  ".join(listed),
        code="unsupported-ops",
        hint="; ".join(filter(None, ["; ".join(hints) or otherwise, way_out])),
    )


def _shortened(places: list[str]) -> str:
    distinct = list(dict.fromkeys(places))
    more = len(distinct) - _LINES_SHOWN
    return ", ".join(distinct[:_LINES_SHOWN]) + (f" and {more} more" if more > 0 else "")
