"""Which arguments of a stage IREE's code may write into, and which results are free memory.

    func.func @run(%cache, %k, %at) { %0 = tm_tensor.scatter ins(%k, %at) outs(%cache)
                                      return %0 }                -> written (0,), owned (0,)

IREE 3.13 updates the destination of an operation in place when nothing else reads it, and
takes an argument of the function for one that it may overwrite (no copy is made by
`iree-stream-materialize-copy-on-write` where the argument has one use). So the runtime
must pass memory that nobody else will read. What is found here may be more than IREE
really writes, never less: a destination is followed back through everything that IREE may
turn into a view.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

BARRIER = "iree_tensor_ext.compute_barrier.end"
_VIEWS = (
    BARRIER,
    "flow.tensor.tie_shape",
    "tensor.bitcast",
    "tensor.cast",
    "tensor.collapse_shape",
    "tensor.expand_shape",
    "tensor.extract_slice",
    "tensor.reshape",
    "util.optimization_barrier",
)
_INSERTS = ("tensor.insert", "tensor.insert_slice")
"""(value, destination, ...)"""
_COPIES = ("linalg.broadcast", "linalg.copy", "linalg.transpose")


@dataclass(frozen=True)
class MemoryEffects:
    """`written` are arguments; `owned` results that lie neither in another argument's
    memory nor in another result's."""

    written: tuple[int, ...]
    owned: tuple[int, ...]


def memory_effects(run: Any, functions: Mapping[str, Any]) -> MemoryEffects:
    """Of `run`, which may call other `functions`, by name."""
    entry = run.regions[0].blocks[0]
    written = written_arguments(run, functions)
    roots = [_roots(value) for value in list(entry.operations)[-1].operands]
    foreign = {value for at, value in enumerate(entry.arguments) if at not in written}
    owned = tuple(
        at
        for at, mine in enumerate(roots)
        if mine.isdisjoint(foreign)
        and all(mine.isdisjoint(other) for k, other in enumerate(roots) if k != at)
    )
    return MemoryEffects(written, owned)


def written_arguments(function: Any, functions: Mapping[str, Any]) -> tuple[int, ...]:
    """Positions among the arguments of `function`."""
    if not len(function.regions[0].blocks):
        return ()  # a kernel of ours, which only reads
    arguments = list(function.regions[0].blocks[0].arguments)
    roots: set[Any] = set()
    for value in _destinations(function, functions):
        roots |= _roots(value)
    return tuple(at for at, argument in enumerate(arguments) if argument in roots)


def _destinations(op: Any, functions: Mapping[str, Any]) -> Iterator[Any]:
    for region in op.regions:
        for block in region.blocks:
            for child in block.operations:
                inner = child.operation
                yield from _written_by(inner, functions)
                yield from _destinations(inner, functions)


def _written_by(op: Any, functions: Mapping[str, Any]) -> Iterator[Any]:
    if op.name == "func.call":
        callee = functions[op.attributes["callee"].value]
        yield from (op.operands[at] for at in written_arguments(callee, functions))
    elif op.name in _INSERTS:
        yield op.operands[1]
    elif op.name.startswith(("linalg.", "tm_tensor.")):
        yield from _initial_values(op)


def _initial_values(op: Any) -> list[Any]:
    """The last operands, one for each result."""
    return list(op.operands)[-len(op.results) :] if len(op.results) else []


def _roots(value: Any) -> set[Any]:
    """Where the memory of `value` may come from."""
    from iree.compiler import ir

    roots: set[Any] = set()
    seen: set[Any] = set()
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        owner = value.owner
        if not isinstance(owner, ir.Block):
            sources = _sources(owner)
        elif owner.owner.operation.name == "func.func":
            sources = []
        else:
            sources = [*owner.owner.operands, *_ends(owner.owner)]  # and of later turns
        waiting += sources
        if not sources and isinstance(value.type, ir.RankedTensorType):
            roots.add(value)
    return roots


def _sources(op: Any) -> list[Any]:
    """Operands whose memory a result of `op` may be."""
    if op.name in _INSERTS:
        return [op.operands[1]]
    if op.name in _VIEWS:
        return [op.operands[0]]
    if op.name in ("arith.select", "func.call"):
        return list(op.operands)
    if op.name in _COPIES or op.name == "linalg.generic" and _forwards(op):
        return list(op.operands)  # folded away, where the shape allows
    if op.name.startswith(("linalg.", "tm_tensor.")):
        return _initial_values(op)
    if op.name.startswith("scf."):
        return [*op.operands, *_ends(op)]
    return []


def _ends(op: Any) -> list[Any]:
    """What the blocks of `op` end with."""
    ends = [list(block.operations)[-1] for region in op.regions for block in region.blocks]
    return [value for end in ends for value in end.operands]


def _forwards(op: Any) -> bool:
    """Whether a result is an operand's elements as they are."""
    from iree.compiler import ir

    block = op.regions[0].blocks[0]
    ends = list(block.operations)[-1].operands
    return any(isinstance(value.owner, ir.Block) for value in ends)
