"""Each sort permutes places of its own.

    %i = 0, 1, 2, ...                           %i = o, o + 1, o + 2, ...
    %v, %p = tm_tensor.sort outs(%x, %i)   ->   %v, %q = tm_tensor.sort outs(%x, %i)
                                                %p = %q - o

with another o for each sort. IREE 3.13 sorts in place. Where the places 0, 1, 2, ... have
other readers, it copies them by computing them again, and then shares the two equal
computations: the other readers see sorted places, or none at all.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.passes.base import Pass
from lemurc.passes.tensor_operations import integer, plus
from lemurc.passes.walking import operations

_STRIDE = 1 << 32
"""Between the offsets of two sorts; no tensor is as long."""


@dataclass(frozen=True)
class OwnSortPlaces(Pass):
    name: ClassVar[str] = "own-sort-places"

    def run(self, module: ir.Operation) -> None:
        sorts = operations(module, lambda op: op.name == "tm_tensor.sort")
        for number, operation in enumerate(sorts, 1):
            for position, value in enumerate(list(operation.operands)):
                if _counts_from_zero(value):
                    _offset(operation, position, number * _STRIDE)


def _counts_from_zero(value: ir.Value) -> bool:
    """Whether it is torch-mlir's tensor of 64-bit places along one dimension."""
    if isinstance(value.owner, ir.Block) or str(value.type.element_type) != "i64":
        return False
    generic = value.owner.operation
    if generic.name != "linalg.generic" or len(generic.operands) != 1:
        return False
    body = [op.operation.name for op in generic.regions[0].blocks[0].operations]
    return body == ["linalg.index", "arith.index_cast", "linalg.yield"]


def _offset(sort: ir.Operation, position: int, offset: int) -> None:
    places = sort.operands[position].owner.operation.clone(ir.InsertionPoint(sort))
    block = places.operation.regions[0].blocks[0]
    end = block.operations[len(block.operations) - 1].operation
    with ir.InsertionPoint(end), sort.location:
        place = end.operands[0]
        end.operands[0] = ir.Operation.create(
            "arith.addi", results=[place.type], operands=[place, integer(offset, place.type)]
        ).results[0]
    sort.operands[position] = places.operation.results[0]
    result = sort.results[position]
    readers = [(use.owner.operation, use.operand_number) for use in result.uses]
    following = sort.parent.regions[0].blocks[0].operations
    after = list(following).index(sort) + 1
    with ir.InsertionPoint(following[after]), sort.location:
        corrected = plus(result, -offset)
    for reader, operand in readers:
        reader.operands[operand] = corrected
