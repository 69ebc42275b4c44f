"""Strided slices that something looks up by index are copied first.

    %s = tensor.extract_slice %x      ->   %s = tensor.extract_slice %x
    ... tensor.extract %s[%i]              %k = util.optimization_barrier %s
                                           ... tensor.extract %k[%i]

IREE 3.13 reads from the slice where it lies, and finds no code for the index then.
"""

from collections.abc import Iterable
from typing import Any

_VIEWS = ("tensor.cast", "tensor.collapse_shape", "tensor.expand_shape")


def keep_slices(operations: Iterable[Any]) -> None:
    from iree.compiler import ir

    kept: dict[Any, Any] = {}
    for lookup in [op for op in operations if op.name == "tensor.extract"]:
        looked_up = lookup.operands[0]
        if not _is_strided_slice(looked_up):
            continue
        if looked_up not in kept:
            block = list(looked_up.owner.parent.regions[0].blocks[0].operations)
            after = [op.operation for op in block].index(looked_up.owner) + 1
            with ir.InsertionPoint(block[after]), ir.Location.unknown():
                kept[looked_up] = _copied(looked_up)
        lookup.operands[0] = kept[looked_up]


def _copied(value: Any) -> Any:
    """Behind a barrier, of which IREE learns the sizes that are dynamic."""
    from iree.compiler import ir
    from iree.compiler.dialects import arith, tensor

    kind = ir.RankedTensorType(value.type)
    dynamic = [dim for dim in range(kind.rank) if kind.is_dynamic_dim(dim)]
    index = ir.IndexType.get()
    sizes = [tensor.dim(value, arith.constant(index, dim)) for dim in dynamic]
    barrier = ir.Operation.create(
        "util.optimization_barrier", results=[kind], operands=[value]
    ).results[0]
    if not dynamic:
        return barrier
    return ir.Operation.create(
        "flow.tensor.tie_shape", results=[kind], operands=[barrier, *sizes]
    ).results[0]


def _is_strided_slice(value: Any) -> bool:
    from iree.compiler import ir

    while not isinstance(value.owner, ir.Block) and value.owner.name in _VIEWS:
        value = value.owner.operands[0]
    if isinstance(value.owner, ir.Block) or value.owner.name != "tensor.extract_slice":
        return False
    sizes, strides = (
        list(value.owner.attributes[f"static_{name}"]) for name in ("sizes", "strides")
    )
    if any(stride != 1 for stride in strides):
        return True
    source = ir.RankedTensorType(value.owner.operands[0].type)
    first = next((dim for dim, size in enumerate(sizes) if size != 1), len(sizes))
    return any(
        source.is_dynamic_dim(dim) or sizes[dim] != source.get_dim_size(dim)
        for dim in range(first + 1, len(sizes))
    )
