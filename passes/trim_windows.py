"""Cut off what a single window does not reach.

    conv_2d_nchw_fchw {strides = 2} (%x : 1x2x4x4, %w : 3x2x3x3) -> 1x3x1x1
      ->  the same of tensor.extract_slice %x[0, 0, 0, 0] [1, 2, 3, 3] [1, 1, 1, 1]

Along a dimension whose result has size 1, IREE 3.13 drops the window's loop and takes the
whole dimension for the window: where stride or rounding left a rest, its code is invalid.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import linalg

from lemurc.passes.base import Pass
from lemurc.passes.tensor_operations import dim_size
from lemurc.passes.walking import operations


@dataclass(frozen=True)
class TrimWindows(Pass):
    """Operations with one window along a dimension read no further than it."""

    name: ClassVar[str] = "trim-windows"

    def run(self, module: ir.Operation) -> None:
        for operation in operations(module, lambda op: op.name.startswith("linalg.")):
            _trim(operation)


def _trim(operation: ir.Operation) -> None:
    maps = linalg.get_indexing_maps(operation)
    if maps is None or "operandSegmentSizes" not in operation.attributes:
        return
    indexings = [attribute.value for attribute in maps]
    inputs = ir.DenseI32ArrayAttr(operation.attributes["operandSegmentSizes"])[0]
    extents = _extents(operation, indexings)
    for number in range(inputs):
        value = operation.operands[number]
        if not isinstance(value.type, ir.RankedTensorType):
            continue
        shape = list(ir.RankedTensorType(value.type).shape)
        reach = [
            _reach(expression, extents, size)
            for expression, size in zip(indexings[number].results, shape, strict=True)
        ]
        if reach != shape:
            with ir.InsertionPoint(operation), operation.location:
                operation.operands[number] = _front(value, reach)


def _extents(operation: ir.Operation, indexings: list[ir.AffineMap]) -> dict[int, int]:
    """The number of turns of each loop, where an operand's type tells a constant one."""
    found: dict[int, int] = {}
    for value, indexing in zip(operation.operands, indexings, strict=True):
        if not isinstance(value.type, ir.RankedTensorType):
            continue
        kind = ir.RankedTensorType(value.type)
        for dim, expression in enumerate(indexing.results):
            if isinstance(expression, ir.AffineDimExpr) and not kind.is_dynamic_dim(dim):
                found[expression.position] = kind.shape[dim]
    return found


def _reach(expression: ir.AffineExpr, extents: Mapping[int, int], size: int) -> int:
    """How much of `size` a sum of loops reads, one of which turns once; else all of it."""
    loops = _loops(expression)
    if len(loops) < 2 or size < 0 or any(loop not in extents for loop in loops):
        return size
    if all(extents[loop] != 1 for loop in loops) or any(extents[loop] == 0 for loop in loops):
        return size
    last = sum(step * (extents[loop] - 1) for loop, step in loops.items())
    return min(size, last + 1)


def _loops(expression: ir.AffineExpr) -> dict[int, int]:
    """`2 * d0 + d3` as {0: 2, 3: 1}; empty where it is no such sum."""
    if isinstance(expression, ir.AffineDimExpr):
        return {expression.position: 1}
    if isinstance(expression, ir.AffineMulExpr):
        loops, factor = _loops(expression.lhs), expression.rhs
        if len(loops) != 1 or not isinstance(factor, ir.AffineConstantExpr):
            return {}
        return {loop: step * factor.value for loop, step in loops.items()}
    if isinstance(expression, ir.AffineAddExpr):
        left, right = _loops(expression.lhs), _loops(expression.rhs)
        return left | right if left and right and not left.keys() & right.keys() else {}
    return {}


def _front(value: ir.Value, sizes: list[int]) -> ir.Value:
    """The first entries along every dimension; a dynamic one stays whole."""
    kind = ir.RankedTensorType(value.type)
    dynamic = [dim_size(value, dim) for dim in range(kind.rank) if kind.is_dynamic_dim(dim)]
    return ir.Operation.create(
        "tensor.extract_slice",
        results=[ir.RankedTensorType.get(sizes, kind.element_type)],
        operands=[value, *dynamic],
        attributes={
            "static_offsets": ir.DenseI64ArrayAttr.get([0] * kind.rank),
            "static_sizes": ir.DenseI64ArrayAttr.get(sizes),
            "static_strides": ir.DenseI64ArrayAttr.get([1] * kind.rank),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, len(dynamic), 0]),
        },
    ).results[0]
