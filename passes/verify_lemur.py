"""Check what IRDL cannot: attributes of upstream operations, placement, composites.

Every finding is an error at the location of the operation it is about. What holds of
stages is in passes/verify_stages.py.
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from torch_mlir import ir

from lemurc.errors import LemurcError
from lemurc.passes import graph as graphs
from lemurc.passes import system as systems
from lemurc.passes.base import Pass, PassError
from lemurc.passes.composite_kinds import KINDS
from lemurc.passes.verify_host_calls import find_in_entry
from lemurc.passes.verify_stages import find_in_outlined, find_in_staged

Finding = tuple[ir.Location, str]

ARGUMENT_MARKS = ("lemur.input", "lemur.param", "lemur.state")
RESULT_MARKS = ("lemur.output", "lemur.state_update", "lemur.input_update", "lemur.checks")
INDICES = ("lemur.input", "lemur.output", "lemur.input_update", "lemur.checks")
COUNTS = ("flops", "bytes_read", "bytes_written", "live_bytes")


class InvalidModule(PassError):
    """The module breaks rules of lemur IR: one finding for each, where it is broken."""

    def __init__(self, findings: list[Finding]) -> None:
        first = [f"{location}: {message}" for location, message in findings[:10]]
        more = [f"and {len(findings) - 10} more"] if len(findings) > 10 else []
        super().__init__("\n".join(["the module is not valid lemur IR", *first, *more]))
        self.findings = findings


@dataclass(frozen=True)
class VerifyLemur(Pass):
    """Changes nothing; raises InvalidModule when something is wrong."""

    name: ClassVar[str] = "verify-lemur"

    def run(self, module: ir.Operation) -> None:
        if findings := list(find(module)):
            raise InvalidModule(findings)


def find(module: ir.Operation) -> Iterator[Finding]:
    """Everything wrong with `module`, in order."""
    try:
        system = systems.read(module) if "lemur.system" in module.attributes else None
    except LemurcError as error:
        yield module.location, error.message
        return
    for function in graphs.functions(module):
        yield from _marks(function, "arg_attrs", ARGUMENT_MARKS, "argument")
        yield from _marks(function, "res_attrs", RESULT_MARKS, "result")
        yield from _composite(function)
    for entry in graphs.entries(module):
        yield from _operations(entry, system.names() if system is not None else None)
        yield from find_in_entry(entry, system)
        yield from find_in_staged(entry)
    yield from find_in_outlined(module)


def _marks(
    function: ir.Operation, where: str, marks: tuple[str, ...], what: str
) -> Iterator[Finding]:
    """One mark each, as soon as one of them has a mark, and no two the same."""
    if where not in function.attributes:
        return
    attributes = list(function.attributes[where])
    found = [[name for name in marks if name in item] for item in attributes]
    seen: dict[tuple[str, Any], int] = {}
    for number, (names, item) in enumerate(zip(found, attributes, strict=True)):
        if len(names) != 1 and any(found):
            got = " and ".join(names) or "none"
            choice = ", ".join(marks)
            yield function.location, f"{what} {number} needs exactly one of {choice}; it has {got}"
        for name in names:
            value = getattr(item[name], "value", None)
            if not _fits(name, value):
                kind = "an index" if name in INDICES else "a name"
                yield function.location, f"{name} of {what} {number} must be {kind}: {item[name]}"
            elif (name, value) in seen:
                first = seen[name, value]
                yield (
                    function.location,
                    f"{what}s {first} and {number} are both {name} = {item[name]}",
                )
            else:
                seen[name, value] = number


def _fits(name: str, value: Any) -> bool:
    if name in INDICES:
        return isinstance(value, int) and value >= 0
    return isinstance(value, str) and value != ""


def _composite(function: ir.Operation) -> Iterator[Finding]:
    if "lemur.composite" not in function.attributes:
        return
    kind = getattr(function.attributes["lemur.composite"], "value", None)
    if kind not in KINDS:
        near = difflib.get_close_matches(str(kind), KINDS, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(sorted(KINDS))}"
        yield function.location, f"unknown kind of composite '{kind}'; {hint}"
    if len(function.regions[0].blocks) != 1:
        count = len(function.regions[0].blocks)
        yield function.location, f"a composite has a body of one block, not {count}"
    if "sym_visibility" not in function.attributes:
        yield function.location, "a composite is private"


def _operations(entry: ir.Operation, devices: list[str] | None) -> Iterator[Finding]:
    graph = graphs.Graph(entry)
    placed = [index for index in graph.placeable if "lemur.device" in graph.nodes[index].attributes]
    for index, op in enumerate(graph.nodes):
        yield from _cost(op)
        yield from _values(op)
        if "lemur.device" in op.attributes:
            yield from _device(op, devices)
        elif placed and not graph.free[index]:
            yield op.location, f"'{op.name}' has no device, though others of this function do"


def _device(op: ir.Operation, devices: list[str] | None) -> Iterator[Finding]:
    name = getattr(op.attributes["lemur.device"], "value", None)
    if not isinstance(name, str):
        yield op.location, f"lemur.device must be a name: {op.attributes['lemur.device']}"
    elif devices is not None and name not in devices:
        yield op.location, f"no device '{name}' in lemur.system; it has {', '.join(devices)}"


def _cost(op: ir.Operation) -> Iterator[Finding]:
    if "lemur.cost" not in op.attributes:
        return
    cost = op.attributes["lemur.cost"]
    if not isinstance(cost, ir.DictAttr):
        yield op.location, f"lemur.cost must be a dictionary: {cost}"
        return
    for name in COUNTS:
        value = getattr(cost[name], "value", None) if name in cost else None
        if not isinstance(value, int) or value < 0:
            yield op.location, f"lemur.cost needs {name}, an integer that is not negative"


def _values(op: ir.Operation) -> Iterator[Finding]:
    if "lemur.values" in op.attributes and len(op.attributes["lemur.values"]) != len(op.results):
        names = len(op.attributes["lemur.values"])
        yield op.location, f"lemur.values has {names} names for {len(op.results)} results"
