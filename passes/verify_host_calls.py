"""What must hold of calls that PyTorch runs: a full description, and a place on the host."""

from collections.abc import Iterator
from typing import Any

from torch_mlir import ir

from lemurc.manifest import HOST
from lemurc.passes.attributes import plain
from lemurc.passes.host_calls import ATTRIBUTE, is_host_call
from lemurc.passes.system import System

Finding = tuple[ir.Location, str]


def find_in_entry(entry: ir.Operation, system: System | None) -> Iterator[Finding]:
    """`system` is None where the module names none."""
    for inner in entry.regions[0].blocks[0].operations:
        op = inner.operation
        if is_host_call(op):
            yield from _description(op)
        if system is not None and "lemur.device" in op.attributes:
            yield from _place(op, system)


def _description(op: ir.Operation) -> Iterator[Finding]:
    described = plain(op.attributes[ATTRIBUTE])
    fields = {"op", "arguments", "inputs", "results"}
    if not isinstance(described, dict) or described.keys() != fields:
        yield op.location, f"{ATTRIBUTE} needs {', '.join(sorted(fields))}"
        return
    if "::" not in str(described["op"]):
        yield (
            op.location,
            f"'{described['op']}' is no operator of PyTorch, such as my_library::scale",
        )
    for key, values in (("inputs", list(op.operands)), ("results", list(op.results))):
        count = len(described[key])
        if count != len(values):
            yield op.location, f"{ATTRIBUTE} has {count} {key}, the call {len(values)}"
    for number in _operands_named(described["arguments"]):
        if not 0 <= number < len(op.operands):
            yield op.location, f"{ATTRIBUTE} names operand {number} of {len(op.operands)}"


def _operands_named(item: Any) -> Iterator[int]:
    if isinstance(item, list):
        for inner in item:
            yield from _operands_named(inner)
    elif isinstance(item, dict):
        yield from (number for key, number in item.items() if key in ("tensor", "number"))


def _place(op: ir.Operation, system: System) -> Iterator[Finding]:
    name = getattr(op.attributes["lemur.device"], "value", None)
    target = next((device.target for device in system.devices if device.name == name), None)
    if target is None:
        return  # said elsewhere
    if is_host_call(op) and target != HOST:
        yield op.location, f"PyTorch runs this call, so it goes to the host, not to '{name}'"
    elif not is_host_call(op) and target == HOST:
        yield op.location, f"'{op.name}' is on the host, where only PyTorch runs"
