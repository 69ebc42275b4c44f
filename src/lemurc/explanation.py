"""What `lemurc plan --explain` says of operations: plain data, made by `explain-placement`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Alternative:
    """A device an operation, or all of a module, could be on.

    `seconds` are those of the operations there, `call_seconds` those of the whole call with
    them there, by the sum that `place` minimises: operations and transfers, without the calls
    of stages. Both are null where `why_not` says what forbids it. `fits` is whether memory does.
    """

    device: str
    why_not: str = ""
    seconds: float | None = None
    call_seconds: float | None = None
    fits: bool = True


@dataclass(frozen=True)
class Neighbour:
    """What is not in one fused group with an operation, and why: `role` is "reader", "input" or,
    for a group that had to be taken apart, "group"."""

    role: str
    kind: str
    path: str
    why: str


@dataclass(frozen=True)
class ExplainedOperation:
    """One unit of placement: an operation, a composite or a fused group of them.

    `value` is the name of its first result, `values` those of all, `needs` those of what it reads
    but weights. `members` are the kinds in a group, `paths` the modules they come from. `why` it
    is on `device`: "pinned", "not legal elsewhere" or "cheapest"; `pins` are those that cover it.
    `split` is why it is a part of what was split, or puts parts together; "" of all else.
    `copies` are stages on other devices that compute it again.
    """

    value: str
    values: tuple[str, ...]
    needs: tuple[str, ...]
    kind: str
    members: tuple[str, ...]
    paths: tuple[str, ...]
    line: str
    device: str
    why: str
    flops: int
    bytes: int
    seconds: float
    alternatives: tuple[Alternative, ...]
    apart: tuple[Neighbour, ...]
    pins: tuple[str, ...]
    stage: str = ""
    copies: tuple[str, ...] = ()
    split: str = ""


@dataclass(frozen=True)
class ExplainedModule:
    """All operations of the modules that `glob` names, moved together."""

    glob: str
    operations: int
    devices: dict[str, int]
    alternatives: tuple[Alternative, ...]


@dataclass(frozen=True)
class ExplainedFunction:
    """`call_seconds` is what `place` minimised, `solver` how sure it was of that."""

    function: str
    call_seconds: float
    solver: str
    objective: str
    modules: tuple[ExplainedModule, ...] = ()
    operations: tuple[ExplainedOperation, ...] = ()
