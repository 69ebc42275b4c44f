"""relu of -0.0 is -0.0, as in eager.

    %c = arith.cmpf ugt, %x, %zero   ->   arith.cmpf uge, %x, %zero
    %y = arith.select %c, %x, %zero

torch-mlir writes relu so; a comparison that a model asks for itself is an ordered one.
The sign of a zero is what a later division, square root or `signbit` tells apart.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.passes.base import Pass
from lemurc.passes.walking import operations

_UGT, _UGE = 9, 10
"""`arith.cmpf` holds its predicate as a number."""


@dataclass(frozen=True)
class KeepZeroSigns(Pass):
    """What torch-mlir makes of relu keeps the sign of zero."""

    name: ClassVar[str] = "keep-zero-signs"

    def run(self, module: ir.Operation) -> None:
        for compare in operations(module, _is_relu):
            kind = compare.attributes["predicate"].type
            compare.attributes["predicate"] = ir.IntegerAttr.get(kind, _UGE)


def _is_relu(operation: ir.Operation) -> bool:
    if operation.name != "arith.cmpf" or operation.attributes["predicate"].value != _UGT:
        return False
    value, bound = operation.operands
    users = [use.owner.operation for use in operation.results[0].uses]
    return _is_zero(bound) and all(
        user.name == "arith.select" and list(user.operands)[1:] == [value, bound] for user in users
    )


def _is_zero(value: ir.Value) -> bool:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return False
    number = owner.attributes["value"]
    return isinstance(number, ir.FloatAttr) and bool(number.value == 0.0)
