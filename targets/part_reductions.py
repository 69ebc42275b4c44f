"""The result of a reduction is memory of its own before it is reduced or converted again.

    %sum = linalg.generic {... "reduction"} %x      %sum = linalg.generic ... %x
    %y = linalg.generic ... arith.truncf %sum  ->   %kept = util.optimization_barrier %sum
                                                    %y = linalg.generic ... arith.truncf %kept

IREE 3.13 makes one dispatch of the two. Unless its SPIR-V reduces by subgroups, the first
one's result is then memory that the threads of a workgroup share, and they write and read it
without a barrier between: sums of f64 over dimensions of which the last stays were wrong.
"""

from collections.abc import Iterable, Iterator
from typing import Any

_VIEWS = (
    "tensor.cast",
    "tensor.collapse_shape",
    "tensor.expand_shape",
    "tensor.extract_slice",
    "tensor.insert_slice",
    "tensor.pad",
)


def part_reductions(operations: Iterable[Any]) -> None:
    """Put barriers behind reductions whose result is not what their dispatch writes.

    And behind a widening that several operations read: IREE repeats it in the dispatch of each,
    in shared memory too.
    """
    from iree.compiler import ir

    first: dict[Any, None] = {}
    for operation in operations:
        if _is_shared_widening(operation):
            first[operation] = None
        if not operation.name.startswith("linalg."):
            continue
        seen: set[Any] = set()
        behind = [r for operand in operation.operands for r in _reductions_behind(operand, seen)]
        first.update((r, None) for r in behind if _reduces(operation) or _converts(operation, r))
    for reduction in first:
        block = list(reduction.parent.regions[0].blocks[0].operations)
        after = [op.operation for op in block].index(reduction) + 1
        for result in reduction.results:
            kept = ir.Operation.create(
                "util.optimization_barrier",
                results=[result.type],
                operands=[result],
                ip=ir.InsertionPoint(block[after]),
                loc=ir.Location.unknown(),
            )
            result.replace_all_uses_except(kept.results[0], kept)


def _reductions_behind(value: Any, seen: set[Any]) -> Iterator[Any]:
    """The nearest reductions that `value` is computed from, through what may be fused."""
    from iree.compiler import ir

    if value in seen or isinstance(value.owner, ir.Block):
        return
    seen.add(value)
    owner = value.owner
    if _reduces(owner):
        yield owner
    elif owner.name in _VIEWS or owner.name.startswith("linalg."):
        for operand in owner.operands:
            yield from _reductions_behind(operand, seen)


def _reduces(operation: Any) -> bool:
    if operation.name != "linalg.generic":
        return False
    return "reduction" in str(operation.attributes["iterator_types"])


def _converts(operation: Any, reduction: Any) -> bool:
    held = {str(result.type.element_type) for result in reduction.results}
    return not {str(result.type.element_type) for result in operation.results} <= held


def _is_shared_widening(operation: Any) -> bool:
    if operation.name != "linalg.generic" or len(list(operation.results[0].uses)) < 2:
        return False
    body = [op.operation.name for op in operation.regions[0].blocks[0].operations]
    return len(body) == 2 and body[0] in ("arith.extf", "arith.extsi", "arith.extui")
