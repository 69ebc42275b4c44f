"""Reductions over three dimensions and more go two at a time.

    %y = linalg.generic [red, red, red] %x  ->  %s = linalg.generic [par, red, red] %x
                                                %y = linalg.generic [red] %s

IREE 3.13 fuses into a reduction what broadcasts along one of its dimensions, which then cannot
be collapsed any more; where its SPIR-V gives three of them to a subgroup, it counts some entries
twice and others never. The sum of x[2, 3, 8] * y[2, 1, 8] was wrong by what was left out.
"""

from collections.abc import Iterable, Sequence
from typing import Any

_AT_ONCE = 2
_NEUTRAL = {
    "arith.addf": 0.0,
    "arith.mulf": 1.0,
    "arith.maximumf": float("-inf"),
    "arith.minimumf": float("inf"),
    "arith.addi": 0,
    "arith.muli": 1,
    "arith.ori": 0,
    "arith.andi": -1,
    "arith.xori": 0,
}


def step_reductions(operations: Iterable[Any]) -> None:
    """Rewrite reductions to one result by an operation whose neutral element is known; where it
    is not, what is reduced is memory of its own, and IREE collapses the dimensions."""
    for operation in list(operations):
        if operation.name == "linalg.generic" and len(reduced(operation)) > _AT_ONCE:
            step(operation, _AT_ONCE)


def reduced(operation: Any) -> list[int]:
    kinds = operation.attributes["iterator_types"]
    return [axis for axis, kind in enumerate(kinds) if "reduction" in str(kind)]


def step(operation: Any, at_once: int) -> None:
    """Reduce the last `at_once` dimensions, then as many of what is left, and so on."""
    from iree.compiler import ir
    from iree.compiler.dialects import linalg, tensor

    combiner = combiner_of(operation)
    axes = reduced(operation)[:-at_once]
    maps = [attribute.value for attribute in operation.attributes["indexing_maps"]]
    *inputs, start = operation.operands
    if combiner is None or not all(map(_is_projection, maps)):
        _keep(operation, inputs)
        return
    kept = [result.position for result in maps[-1].results]
    # In the order of the loops: of a result that is transposed, IREE leaves entries out.
    between = sorted([*kept, *axes])
    with ir.InsertionPoint(operation), ir.Location.unknown():
        element = start.type.element_type
        sizes = [_extent(axis, operation, maps) for axis in between]
        neutral = _constant(element, _NEUTRAL[combiner.name])
        partial = linalg.fill(neutral, outs=[tensor.empty(sizes, element)])
        into = _projection(between, maps[-1].n_dims)
        left = [axis for axis in reduced(operation) if axis not in axes]
        first = _generic(inputs, partial, [*maps[:-1], into], left)
        rank = len(between)
        both = [
            _projection(range(rank), rank),
            _projection([between.index(axis) for axis in kept], rank),
        ]
        last = _generic([first.results[0]], start, both, map(between.index, axes))
        block = last.regions[0].blocks.append(element, element)
        with ir.InsertionPoint(block):
            combined = combiner.clone()
            combined.operands[0], combined.operands[1] = block.arguments
            linalg.YieldOp([combined.results[0]])
    operation.regions[0].blocks[0].append_to(first.regions[0])
    operation.results[0].replace_all_uses_with(last.results[0])
    operation.erase()
    if len(axes) > at_once:
        step(last, at_once)


def combiner_of(operation: Any) -> Any | None:
    """The operation that joins an entry to the result so far, if its neutral element is known."""
    from iree.compiler import ir

    if len(operation.results) != 1:
        return None
    block = operation.regions[0].blocks[0]
    made = list(block.operations)[-1].operands[0]
    so_far = block.arguments[len(block.arguments) - 1]
    if isinstance(made.owner, ir.Block) or len(list(so_far.uses)) != 1:
        return None
    owner = made.owner.operation
    if owner.name == "arith.mulf" and str(made.type) == "bf16":
        return None  # IREE 3.13 has no such product of several dimensions by subgroups.
    return owner if owner.name in _NEUTRAL and so_far in list(owner.operands) else None


def _is_projection(map_: Any) -> bool:
    from iree.compiler import ir

    return all(isinstance(result, ir.AffineDimExpr) for result in map_.results)


def _projection(axes: Iterable[int], loops: int) -> Any:
    from iree.compiler import ir

    return ir.AffineMap.get(loops, 0, [ir.AffineExpr.get_dim(axis) for axis in axes])


def _size(value: Any, axis: int) -> Any:
    from iree.compiler import ir
    from iree.compiler.dialects import arith, tensor

    if not value.type.is_dynamic_dim(axis):
        return value.type.get_dim_size(axis)
    return tensor.dim(value, arith.constant(ir.IndexType.get(), axis))


def _extent(loop: int, operation: Any, maps: Sequence[Any]) -> Any:
    """A number, or a value where dynamic."""
    for value, map_ in zip(operation.operands, maps, strict=True):
        for axis, result in enumerate(map_.results):
            if result.position == loop:
                return _size(value, axis)
    raise AssertionError("a loop that no operand has")


def _constant(kind: Any, value: float) -> Any:
    from iree.compiler import ir
    from iree.compiler.dialects import arith

    is_float = isinstance(value, float)
    attribute = ir.FloatAttr.get(kind, value) if is_float else ir.IntegerAttr.get(kind, value)
    return arith.constant(kind, attribute)


def _generic(inputs: Sequence[Any], start: Any, maps: Any, axes: Iterable[int]) -> Any:
    """A linalg.generic without a body."""
    from iree.compiler import ir
    from iree.compiler.dialects import linalg

    axes = list(axes)
    kinds = [
        ir.Attribute.parse(f"#linalg.iterator_type<{'reduction' if axis in axes else 'parallel'}>")
        for axis in range(maps[0].n_dims)
    ]
    indexing = ir.ArrayAttr.get([ir.AffineMapAttr.get(map_) for map_ in maps])
    made = linalg.GenericOp([start.type], list(inputs), [start], indexing, ir.ArrayAttr.get(kinds))
    return made.operation


def _keep(operation: Any, inputs: Sequence[Any]) -> None:
    from iree.compiler import ir

    for number, value in enumerate(inputs):
        kept = ir.Operation.create(
            "util.optimization_barrier",
            results=[value.type],
            operands=[value],
            ip=ir.InsertionPoint(operation),
            loc=ir.Location.unknown(),
        )
        operation.operands[number] = kept.results[0]
