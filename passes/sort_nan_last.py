"""NaN is larger than all other numbers when tensors are sorted, as in PyTorch.

    tm_tensor.sort  %c = arith.cmpf ole, %a, %b   ->   %c or %b is NaN      ascending
                    %c = arith.cmpf oge, %a, %b   ->   %c or %a is NaN      descending

torch-mlir's comparison is false for NaN whichever side it is on, so nothing passes one.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.passes.base import Pass
from lemurc.passes.walking import operations

_UNORDERED = 14
"""arith's predicates are integers: `uno`, an operand is NaN."""
_LESS_EQUAL, _GREATER_EQUAL = 5, 3
"""`ole` and `oge`."""


@dataclass(frozen=True)
class SortNanLast(Pass):
    name: ClassVar[str] = "sort-nan-last"

    def run(self, module: ir.Operation) -> None:
        for comparison in operations(module, _is_bare):
            _admit_nan(comparison)


def _is_bare(operation: ir.Operation) -> bool:
    """A float comparison that the region of a sort yields as it is."""
    if operation.name != "arith.cmpf" or operation.parent.name != "tm_tensor.sort":
        return False
    (use,) = operation.results[0].uses
    predicate = operation.attributes["predicate"].value
    return predicate in (_LESS_EQUAL, _GREATER_EQUAL) and use.owner.name == "tm_tensor.yield"


def _admit_nan(comparison: ir.Operation) -> None:
    descending = comparison.attributes["predicate"].value == _GREATER_EQUAL
    larger = comparison.operands[0 if descending else 1]
    result = comparison.results[0]
    (use,) = result.uses
    user, position = use.owner.operation, use.operand_number
    i64 = ir.IntegerType.get_signless(64)
    with ir.InsertionPoint(user), comparison.location:
        is_nan = ir.Operation.create(
            "arith.cmpf",
            results=[result.type],
            operands=[larger, larger],
            attributes={"predicate": ir.IntegerAttr.get(i64, _UNORDERED)},
        )
        either = ir.Operation.create(
            "arith.ori", results=[result.type], operands=[result, is_nan.results[0]]
        )
    user.operands[position] = either.results[0]
