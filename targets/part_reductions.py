"""The result of a reduction is memory of its own before it is reduced or converted again.

    %sum = linalg.generic {... "reduction"} %x      %sum = linalg.generic ... %x
    %y = linalg.generic ... arith.truncf %sum  ->   %kept = util.optimization_barrier %sum
                                                    %y = linalg.generic ... arith.truncf %kept

IREE 3.13 makes one dispatch of the two. Unless its SPIR-V reduces by subgroups, the first
one's result is then memory that the threads of a workgroup share, and they write and read it
without a barrier between: sums of f64 over dimensions of which the last stays were wrong, and
so were products of bytes.
"""

from collections.abc import Iterable, Iterator
from typing import Any

_PRODUCTS = ("linalg.matmul", "linalg.batch_matmul", "linalg.matvec", "linalg.vecmat")

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

    And behind a widening that several operations read, or of bytes that are multiplied: IREE
    repeats it in the dispatch of each, in shared memory too.
    """
    from iree.compiler import ir

    parted: dict[Any, None] = {}
    behind: dict[Any, dict[Any, None]] = {}
    for operation in operations:
        if _is_shared_widening(operation) or _is_multiplied_byte(operation):
            parted[operation] = None
        if operation.name not in _VIEWS and not operation.name.startswith("linalg."):
            continue
        near = {r: None for operand in operation.operands for r in behind.get(operand, ())}
        reduces = _reduces(operation)
        if operation.name not in _VIEWS:
            parted.update((r, None) for r in near if reduces or _converts(operation, r))
        if reduces:
            near = {operation: None}
        elif _starts_dispatch(operation):
            near = {}
        if near:
            behind.update((result, near) for result in operation.results)
    for reduction in parted:
        for result in reduction.results:
            kept = ir.Operation.create(
                "util.optimization_barrier",
                results=[result.type],
                operands=[result],
                ip=ir.InsertionPoint.after(reduction),
                loc=ir.Location.unknown(),
            )
            result.replace_all_uses_except(kept.results[0], kept)


def _starts_dispatch(operation: Any) -> bool:
    """Whether it is the root of a dispatch, into which IREE fuses nothing that it reads."""
    name: str = operation.name
    return name.startswith((*_PRODUCTS, "linalg.conv", "linalg.pooling"))


def _reduces(operation: Any) -> bool:
    if operation.name != "linalg.generic":
        return False
    return "reduction" in str(operation.attributes["iterator_types"])


def _converts(operation: Any, reduction: Any) -> bool:
    held = {str(result.type.element_type) for result in reduction.results}
    return not {str(result.type.element_type) for result in operation.results} <= held


def _is_shared_widening(operation: Any) -> bool:
    widens = _only_step(operation) in ("arith.extf", "arith.extsi", "arith.extui")
    return widens and len(list(operation.results[0].uses)) > 1


def _is_multiplied_byte(operation: Any) -> bool:
    """Whether it widens bytes, or makes numbers of them, for a product or a sum."""
    if _only_step(operation) not in ("arith.extsi", "arith.extui", "arith.sitofp", "arith.uitofp"):
        return False
    if str(operation.operands[0].type.element_type) != "i8":
        return False
    return any(user.name in _PRODUCTS or _reduces(user) for user in _users(operation))


def _users(operation: Any) -> Iterator[Any]:
    """What reads its results, through operations that only move them."""
    for result in operation.results:
        for use in result.uses:
            yield use.owner
            if use.owner.name in (*_VIEWS, "linalg.transpose"):
                yield from _users(use.owner)


def _only_step(operation: Any) -> str:
    """The one operation on numbers that a linalg.generic is made of; "" where it is not one."""
    if operation.name != "linalg.generic":
        return ""
    body = [op.operation.name for op in operation.regions[0].blocks[0].operations]
    return body[0] if len(body) == 2 else ""
