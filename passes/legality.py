"""Which devices may run an operation: element types, composite kinds, the user's pins.

Operators that only PyTorch runs go to the host, which runs nothing else: no pin moves them.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from torch_mlir import ir

from lemurc.dialects.locations import module_path, python_line
from lemurc.errors import UnsupportedModelError, UsageError
from lemurc.manifest import HOST
from lemurc.passes.graph import callee, is_free
from lemurc.passes.host_calls import host_operator, is_host_call
from lemurc.passes.system import Device, System

Functions = Mapping[str, ir.Operation]


def element_types(op: ir.Operation, functions: Functions) -> frozenset[str]:
    """Every element type that `op`, or a composite it calls, computes with."""
    found: set[str] = set()

    def visit(inner: ir.Operation) -> ir.WalkResult:
        for value in (*inner.operands, *inner.results):
            kind = value.type
            found.add(str(kind.element_type if isinstance(kind, ir.ShapedType) else kind))
        if (body := functions.get(callee(inner))) is not None:
            found.update(element_types(body, functions))
        return ir.WalkResult.ADVANCE

    op.walk(visit)
    return frozenset(found)


def kinds(op: ir.Operation, functions: Functions) -> frozenset[str]:
    """The composite kinds that `op` is made of; empty when it is not a composite."""
    body = functions.get(callee(op))
    if body is None:
        return frozenset()
    found = {str(body.attributes["lemur.composite"].value)}
    for inner in body.regions[0].blocks[0].operations:
        found |= kinds(inner.operation, functions)
    return frozenset(found)


def path_of(op: ir.Operation, functions: Functions) -> str:
    """The module of the user's model that `op` belongs to."""
    body = functions.get(callee(op))
    if body is not None and "lemur.module_path" in body.attributes:
        return str(body.attributes["lemur.module_path"].value)
    return module_path(op.location)


def members_of(op: ir.Operation, functions: Functions) -> list[ir.Operation]:
    """Of a fused group: what was fused."""
    body = functions.get(callee(op))
    if body is None or body.attributes["lemur.composite"].value != "fused":
        return [op]
    inside = [inner.operation for inner in body.regions[0].blocks[0].operations]
    return [
        member
        for found in inside
        if found.name != "func.return" and not is_free(found)
        for member in members_of(found, functions)
    ]


def paths_of(op: ir.Operation, functions: Functions) -> list[str]:
    """Of a fused group: the modules of its members."""
    return list(dict.fromkeys(path_of(member, functions) for member in members_of(op, functions)))


def why_illegal(op: ir.Operation, device: Device, functions: Functions) -> str:
    """What of `op` the device cannot do; "" when it can run it."""
    if is_host_call(op) != (device.target == HOST):
        return "runs operators of PyTorch only" if device.target == HOST else "it has no code"
    types = device.illegal_types & element_types(op, functions) if device.illegal_types else ()
    if types:
        return f"type {min(types)}"
    named = device.illegal_kinds & kinds(op, functions) if device.illegal_kinds else ()
    return f"kind {min(named)}" if named else ""


class Legality:
    """The devices each operation may go to under one system."""

    def __init__(self, system: System, functions: Functions) -> None:
        self._system = system
        self._functions = functions

    def pin(self, op: ir.Operation) -> str:
        """The device `op` is pinned to, or "". Of several pins that match, the last holds."""
        if is_host_call(op):
            return ""
        if op.name in ("lemur.transfer", "lemur.pin"):
            return str(op.attributes["device"].value)
        for result in op.results:
            for use in result.uses:
                if use.owner.operation.name == "lemur.pin":
                    return str(use.owner.operation.attributes["device"].value)
        return min({self._pin_of(member) for member in self._members(op)} - {""}, default="")

    def why_not(self, op: ir.Operation, device: Device) -> str:
        """What keeps `op` from the device: what that cannot do, or the user's word."""
        if why := why_illegal(op, device, self._functions):
            return why
        for member in () if is_host_call(op) else self._members(op):
            for rule in self._forbidding(member, device):
                return f"forbidden by {rule}"
        return ""

    def rules(self, op: ir.Operation) -> tuple[str, tuple[str, ...]]:
        """The pin of `op`, and the devices that the user forbids it."""
        return self.pin(op), self._forbidden(op)

    def conflict(self, op: ir.Operation) -> str:
        """Why the members of the group `op` cannot all go to one device; "" if they can."""
        members = self._members(op)
        if members == [op]:
            return ""
        pins = {self._pin_of(member) for member in members}
        if len(pins) > 1:
            named = ", ".join(sorted(pin or "nothing" for pin in pins))
            return f"members are pinned to {named}"
        if len(forbidden := {self._forbidden(member) for member in members}) > 1:
            named = ", ".join(sorted(" and ".join(names) or "nothing" for names in forbidden))
            return f"members are forbidden {named}"
        may = [d.name for d in self._system.devices if not self.why_not(op, d)]
        if pins & set(may) if pins != {""} else may:
            return ""
        return f"no device{' it is pinned to' if pins != {''} else ''} can run all members"

    def pins(self, op: ir.Operation) -> list[tuple[str, str]]:
        """The user's pins, (selector, device), that cover what is in `op`; the last one holds."""
        return [
            (selector, device)
            for selector, device in self._system.pins
            if any(covers(selector, member, self._functions) for member in self._members(op))
        ]

    def _members(self, op: ir.Operation) -> list[ir.Operation]:
        return members_of(op, self._functions)

    def _pin_of(self, member: ir.Operation) -> str:
        matching = [
            device
            for selector, device in self._system.pins
            if covers(selector, member, self._functions)
        ]
        return matching[-1] if matching else ""

    def _forbidding(self, member: ir.Operation, device: Device) -> list[str]:
        return [
            f"{selector}={name}"
            for selector, name in self._system.forbids
            if name in (device.name, device.target) and covers(selector, member, self._functions)
        ]

    def _forbidden(self, op: ir.Operation) -> tuple[str, ...]:
        return tuple(
            device.name
            for device in self._system.devices
            if any(self._forbidding(member, device) for member in self._members(op))
        )

    def devices(self, op: ir.Operation) -> list[str]:
        """Never empty: raises when a pin cannot be met, or when no device can run `op`."""
        reasons = {
            device.name: self.why_not(op, device)
            for device in self._system.devices
            if device.target != HOST or is_host_call(op)
        }
        legal = [name for name, reason in reasons.items() if not reason]
        where = " ".join(filter(None, (path_of(op, self._functions), python_line(op.location))))
        pinned = self.pin(op)
        if pinned and pinned not in reasons:
            raise UsageError(
                f"pinned to '{pinned}', which is not one of the devices {list(reasons)}",
                code="pin-unmatched",
                where=where,
                hint=near(pinned, list(reasons)),
            )
        if pinned and reasons[pinned]:
            raise UsageError(
                f"'{_title(op, self._functions)}' is pinned to '{pinned}', which cannot run it: "
                f"{reasons[pinned]}",
                code="pin-illegal",
                where=where,
                hint=f"it can run on: {', '.join(legal) or 'none'}",
            )
        if not legal:
            message = f"no device can run '{_title(op, self._functions)}': " + ", ".join(
                f"{name}: {reason}" for name, reason in reasons.items()
            )
            if self._forbidden(op):
                raise UsageError(
                    message,
                    code="forbidden-everywhere",
                    where=where,
                    hint="forbid less, or add a device that can run it",
                )
            raise UnsupportedModelError(
                message,
                code="no-legal-device",
                where=where,
                hint="add a device that can, such as --targets cpu",
            )
        return [pinned] if pinned else legal


def matches(glob: str, path: str) -> bool:
    """`encoder.*` and `encoder` both cover everything inside `encoder`."""
    return bool(path) and (fnmatchcase(path, glob) or fnmatchcase(path, f"{glob}.*"))


def covers(selector: str, op: ir.Operation, functions: Functions) -> bool:
    """Whether `op` is of what a pin is for: a glob of modules, `re:` and a regular expression
    of their paths, or `kind:` and a glob of kinds of operations."""
    how, _, rest = selector.partition(":")
    if how == "kind":
        return any(fnmatchcase(kind, rest) for kind in _named(op, functions))
    path = path_of(op, functions)
    if how == "re":
        return bool(path) and re.fullmatch(rest, path) is not None
    return matches(selector, path)


def check_selectors(system: System, ops: Sequence[ir.Operation], functions: Functions) -> None:
    """A pin that nothing of the program is covered by is a mistake worth an error."""
    members = [member for op in ops for member in members_of(op, functions)]
    for word, pairs in (("pin", system.pins), ("forbid", system.forbids)):
        for selector, _ in pairs:
            if any(covers(selector, member, functions) for member in members):
                continue
            known = {path_of(member, functions) for member in members}
            if selector.startswith("kind:"):
                known = {kind for member in members for kind in _named(member, functions)}
            raise UsageError(
                f"{word} '{selector}' matches nothing of the model",
                code="pin-unmatched",
                where=f"--{word}",
                hint=near(selector.removeprefix("kind:"), sorted(known - {""})),
            )


def _named(op: ir.Operation, functions: Functions) -> frozenset[str]:
    """The kinds a user may call `op`: those of composites, else its operation's, "exp"."""
    return kinds(op, functions) or frozenset({op.name.rpartition(".")[2]})


def _title(op: ir.Operation, functions: Functions) -> str:
    if is_host_call(op):
        return host_operator(op)
    return min(kinds(op, functions), default=op.name)


def near(wanted: str, known: list[str]) -> str:
    near = difflib.get_close_matches(wanted, known, 3, 0.5) or known[:5]
    return f"there are: {', '.join(near)}" if near else ""
