"""Sums of products over several dimensions, of which one factor lacks some, go one at a time.

    sum over i, j of w[j] * x[i, j]   ->   sum over i of (sum over j of w[j] * x[i, j])

IREE 3.13 fuses the product with the sum and makes of both a vector.contract that its own verifier
refuses: one without a dimension of results.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from lemurc.targets.step_reductions import combiner_of, reduced, step


def step_products(operations: Iterable[Any]) -> None:
    for operation in list(operations):
        if operation.name == "linalg.generic" and _is_refused(operation):
            step(operation, 1)


def _is_refused(operation: Any) -> bool:
    loops = frozenset(reduced(operation))
    combiner = combiner_of(operation) if len(loops) > 1 else None
    if combiner is None or combiner.name != "arith.addf":
        return False
    fused = list(_fused(operation, loops))
    return any(lacks for _, lacks in fused) and any(map(_multiplies, (g for g, _ in fused)))


def _fused(generic: Any, loops: frozenset[int]) -> Iterator[tuple[Any, bool]]:
    """`generic` and the elementwise operations that make its inputs, each with whether an input
    has some, not all, of what are `loops` in it."""
    maps = [attribute.value for attribute in generic.attributes["indexing_maps"]]
    lacks = False
    for value, map_ in zip(generic.operands, maps, strict=True):
        places = [str(result) for result in map_.results]
        found = {loop for loop in loops if f"d{loop}" in places}
        lacks = lacks or bool(found) and found != loops
        producer = _elementwise(value)
        if producer is not None and found:
            out = producer.attributes["indexing_maps"][len(producer.operands) - 1].value
            inner = {str(out.results[places.index(f"d{loop}")]) for loop in found}
            yield from _fused(producer, frozenset(int(loop[1:]) for loop in inner))
    yield generic, lacks


def _elementwise(value: Any) -> Any | None:
    """The linalg.generic that makes it, if each entry is of its own."""
    from iree.compiler import ir

    if isinstance(value.owner, ir.Block) or value.owner.name != "linalg.generic":
        return None
    operation = value.owner.operation
    out = operation.attributes["indexing_maps"][len(operation.operands) - 1].value
    return None if reduced(operation) or not out.is_permutation else operation


def _multiplies(generic: Any) -> bool:
    block = generic.regions[0].blocks[0]
    return any(inner.operation.name == "arith.mulf" for inner in block.operations)
