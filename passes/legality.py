"""Which devices may run an operation: element types, composite kinds, the user's pins.

Operators that only PyTorch runs go to the host, which runs nothing else: no pin moves them.
"""

import difflib
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


def paths_of(op: ir.Operation, functions: Functions) -> list[str]:
    """Of a fused group: the modules of its members."""
    body = functions.get(callee(op))
    if body is None or body.attributes["lemur.composite"].value != "fused":
        return [path_of(op, functions)]
    members = [inner.operation for inner in body.regions[0].blocks[0].operations]
    found = [
        path
        for member in members
        if member.name != "func.return" and not is_free(member)
        for path in paths_of(member, functions)
    ]
    return list(dict.fromkeys(found))


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
        pins = {self._pin_of(path) for path in paths_of(op, self._functions)} - {""}
        return min(pins, default="")

    def conflict(self, op: ir.Operation) -> str:
        """Why the members of the group `op` cannot all go to one device; "" if they can."""
        body = self._functions.get(callee(op))
        if body is None or body.attributes["lemur.composite"].value != "fused":
            return ""
        pins = {self._pin_of(path) for path in paths_of(op, self._functions)}
        if len(pins) > 1:
            named = ", ".join(sorted(pin or "nothing" for pin in pins))
            return f"members are pinned to {named}"
        may = [d.name for d in self._system.devices if not why_illegal(op, d, self._functions)]
        if pins & set(may) if pins != {""} else may:
            return ""
        return f"no device{' it is pinned to' if pins != {''} else ''} can run all members"

    def pins(self, op: ir.Operation) -> list[tuple[str, str]]:
        """The user's pins, (glob, device), that cover a module of `op`; the last one holds."""
        paths = paths_of(op, self._functions)
        return [
            (glob, device)
            for glob, device in self._system.pins
            if any(matches(glob, path) for path in paths)
        ]

    def _pin_of(self, path: str) -> str:
        matching = [device for glob, device in self._system.pins if matches(glob, path)]
        return matching[-1] if matching else ""

    def devices(self, op: ir.Operation) -> list[str]:
        """Never empty: raises when a pin cannot be met, or when no device can run `op`."""
        reasons = {
            device.name: why_illegal(op, device, self._functions)
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
            raise UnsupportedModelError(
                f"no device can run '{_title(op, self._functions)}': "
                + ", ".join(f"{name}: {reason}" for name, reason in reasons.items()),
                code="no-legal-device",
                where=where,
                hint="add a device that can, such as --targets cpu",
            )
        return [pinned] if pinned else legal


def matches(glob: str, path: str) -> bool:
    """`encoder.*` and `encoder` both cover everything inside `encoder`."""
    return bool(path) and (fnmatchcase(path, glob) or fnmatchcase(path, f"{glob}.*"))


def check_pins(system: System, paths: Sequence[str]) -> None:
    """A pin that names no module of the program is a mistake worth an error."""
    for glob, _ in system.pins:
        if not any(matches(glob, path) for path in paths):
            raise UsageError(
                f"pin '{glob}' matches no module of the model",
                code="pin-unmatched",
                hint=near(glob, sorted({path for path in paths if path})),
            )


def _title(op: ir.Operation, functions: Functions) -> str:
    if is_host_call(op):
        return host_operator(op)
    return min(kinds(op, functions), default=op.name)


def near(wanted: str, known: list[str]) -> str:
    near = difflib.get_close_matches(wanted, known, 3, 0.5) or known[:5]
    return f"there are: {', '.join(near)}" if near else ""
