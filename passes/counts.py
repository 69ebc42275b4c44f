"""How much work one operation is: arithmetic operations and bytes touched.

Work is counted on what an operation *means*: for a composite, on its reference body
in linalg, whose iteration domain times operations per point is exact (a linear layer
is 2*M*N*K and M*N for its bias). Comparisons and selections count, casts and moves
do not; bytes are those of distinct tensors, and views touch none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2, prod

from torch_mlir import ir

from lemurc.passes.graph import VIEWS, callee, values_read
from lemurc.passes.sizes import Sizes

_UNCOUNTED = ("ext", "trunc", "constant", "cast", "sitofp", "uitofp", "fptosi", "fptoui")


@dataclass(frozen=True)
class Work:
    flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


def work(op: ir.Operation, sizes: Sizes, functions: Mapping[str, ir.Operation]) -> Work:
    """`functions` are the module's, by symbol, so that calls can be looked into."""
    return Work(flops(op, sizes, functions), *_bytes(op, sizes, functions))


def flops(op: ir.Operation, sizes: Sizes, functions: Mapping[str, ir.Operation]) -> int:
    body = functions.get(callee(op))
    if body is not None:
        return _flops_of_call(op, body, sizes, functions)
    if op.name.startswith("linalg.") and op.name not in ("linalg.fill", "linalg.index"):
        return prod(iteration_domain(op, sizes)) * _operations_per_point(op)
    if op.name.startswith("tm_tensor."):
        return _flops_of_tm_tensor(op, sizes)
    if op.name.startswith("scf."):
        return sum(
            flops(inner.operation, sizes, functions)
            for region in op.regions
            for block in region.blocks
            for inner in block.operations
        )
    return 0


def _flops_of_call(
    op: ir.Operation,
    body: ir.Operation,
    sizes: Sizes,
    functions: Mapping[str, ir.Operation],
) -> int:
    operands = list(op.operands)
    if _is_true(body, "lemur.transposed") and len(operands) > 1:
        # the reference body multiplies the zeros it inserts; count the multiplications meant
        filters = sizes.shape(operands[1])
        return 2 * sizes.elements(operands[0]) * prod(filters[1:])
    shapes = [
        sizes.shape(value) if isinstance(value.type, ir.RankedTensorType) else []
        for value in operands
    ]
    inner = Sizes(body, shapes)
    return sum(
        flops(inner_op.operation, inner, functions)
        for inner_op in body.regions[0].blocks[0].operations
    )


def _is_true(function: ir.Operation, name: str) -> bool:
    return name in function.attributes and function.attributes[name].value is True


def iteration_domain(op: ir.Operation, sizes: Sizes) -> list[int]:
    """The trip count of each loop, read off the operands that a loop indexes plainly."""
    from torch_mlir.dialects import linalg

    maps = [attribute.value for attribute in linalg.get_indexing_maps(op)]
    domain = [1] * maps[0].n_dims
    for affine, operand in zip(maps, op.operands, strict=True):
        if not isinstance(operand.type, ir.RankedTensorType):
            continue
        for expression, size in zip(affine.results, sizes.shape(operand), strict=True):
            if isinstance(expression, ir.AffineDimExpr):
                domain[expression.position] = size
    return domain


def _operations_per_point(op: ir.Operation) -> int:
    return sum(
        1
        for inner in op.regions[0].blocks[0].operations
        if (name := inner.operation.name).startswith(("arith.", "math."))
        and not any(word in name for word in _UNCOUNTED)
    )


def _flops_of_tm_tensor(op: ir.Operation, sizes: Sizes) -> int:
    operands = list(op.operands)
    if op.name == "tm_tensor.attention":
        query, key, value = (sizes.shape(operand) for operand in operands[:3])
        return 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])
    elements = max((sizes.elements(operand) for operand in operands), default=0)
    if op.name in ("tm_tensor.sort", "tm_tensor.topk"):
        return int(elements * max(1.0, log2(max(2, elements))))
    return elements


def _bytes(
    op: ir.Operation, sizes: Sizes, functions: Mapping[str, ir.Operation]
) -> tuple[int, int]:
    if op.name in VIEWS:
        return 0, 0
    written = sum(sizes.bytes(result) for result in op.results)
    if op.name in ("tensor.extract_slice", "tensor.gather"):
        return written, written
    if op.name == "tensor.insert_slice":
        moved = sizes.bytes(op.operands[0])
        return moved, moved
    unread, gathered = _unread_outputs(op), _gathered(op, functions)
    read = 0
    for value in values_read(op):
        if value not in unread and isinstance(value.type, ir.RankedTensorType):
            size = sizes.bytes(value)
            read += min(size, written) if value in gathered else size
    return read, written


def _unread_outputs(op: ir.Operation) -> list[ir.Value]:
    """Operands that only say where a result goes: nothing in the region reads them."""
    if not op.name.startswith("linalg.") or len(op.regions) == 0:
        return []
    arguments = op.regions[0].blocks[0].arguments
    return [
        operand
        for operand, argument in zip(op.operands, arguments, strict=False)
        if next(iter(argument.uses), None) is None
    ]


def _gathered(op: ir.Operation, functions: Mapping[str, ir.Operation]) -> list[ir.Value]:
    """Tensors of which only some rows are read: tables of an embedding."""
    body = functions.get(callee(op))
    if body is None:
        inside = values_read(op)
        return [value for value in inside if value not in list(op.operands)]
    if body.attributes["lemur.composite"].value != "embedding":
        return []
    return [value for value in op.operands if "i64" not in str(value.type)]
