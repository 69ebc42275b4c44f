"""Rounding to bf16 that IREE would not do.

    %b = arith.truncf %x : f32 to bf16   ->   the nearest number of 8 bits, still f32
    %y = arith.extf %b : bf16 to f32          %b = arith.truncf %nearest : f32 to bf16
                                              %y = arith.extf %b : bf16 to f32

IREE 3.13 computes bf16 in f32 and takes the two casts, in one kernel, for nothing; a cast
that only leads into matrix products or results is left alone. An integer that becomes f32
and then bf16 is made bf16 at once there, for which LLVM has no code; neither has it for the
casts of integers and of f64 to bf16 that torch-mlir writes where an operand is promoted.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.passes.base import Pass
from lemurc.passes.inline_template import inlined
from lemurc.passes.walking import operations

_TEMPLATE = """
func.func private @round(%x: f32) -> f32 {
  %one = arith.constant 1 : i32
  %kept = arith.constant 16 : i32
  %half = arith.constant 32767 : i32
  %mask = arith.constant -65536 : i32
  %bits = arith.bitcast %x : f32 to i32
  %last = arith.shrui %bits, %kept : i32
  %odd = arith.andi %last, %one : i32
  %up = arith.addi %odd, %half : i32
  %sum = arith.addi %bits, %up : i32
  %cut = arith.andi %sum, %mask : i32
  %rounded = arith.bitcast %cut : i32 to f32
  %is_nan = arith.cmpf uno, %x, %x : f32
  %result = arith.select %is_nan, %x, %rounded : f32
  return %result : f32
}
"""


@dataclass(frozen=True)
class KeepRoundings(Pass):
    name: ClassVar[str] = "keep-roundings"

    def run(self, module: ir.Operation) -> None:
        for cast in operations(module, _skips_f32):
            _cast_twice(cast)
        lost = [
            cast
            for cast in operations(module, _rounds)
            if _is_widened(cast.results[0], set()) or _was_integer(cast.operands[0])
        ]
        for cast in lost:
            cast.operands[0] = inlined(_TEMPLATE, [cast.operands[0]], cast)


def _skips_f32(operation: ir.Operation) -> bool:
    """Does it make bf16 of an integer or of f64?"""
    if operation.name not in ("arith.sitofp", "arith.uitofp", "arith.truncf"):
        return False
    return str(operation.results[0].type) == "bf16" and str(operation.operands[0].type) != "f32"


def _cast_twice(cast: ir.Operation) -> None:
    """By way of f32, as eager does."""
    f32 = ir.F32Type.get(cast.context)
    with ir.InsertionPoint(cast), cast.location:
        wide = ir.Operation.create(cast.name, results=[f32], operands=[cast.operands[0]])
        made = ir.Operation.create(
            "arith.truncf", results=[cast.results[0].type], operands=[wide.results[0]]
        )
    cast.results[0].replace_all_uses_with(made.results[0])
    cast.erase()


def _rounds(operation: ir.Operation) -> bool:
    if operation.name != "arith.truncf":
        return False
    return (str(operation.operands[0].type), str(operation.results[0].type)) == ("f32", "bf16")


def _is_widened(value: ir.Value, seen: set[ir.Value]) -> bool:
    """Does it reach a cast to f32, within bodies and through tensors?"""
    if value in seen:
        return False
    seen.add(value)
    for use in value.uses:
        user = use.owner.operation
        if user.name == "arith.extf" or user.name == "func.call":
            return True
        if any(_is_widened(to, seen) for to in _carried(user, use.operand_number)):
            return True
    return False


def _was_integer(value: ir.Value) -> bool:
    """Is it an integer made f32, here or in the body that computes this operand?"""
    owner = value.owner
    if isinstance(owner, ir.Block):
        generic = owner.owner
        if generic.name != "linalg.generic":
            return False
        return _was_integer(generic.operands[ir.BlockArgument(value).arg_number])
    if owner.name == "linalg.generic":
        body = list(owner.regions[0].blocks[0].operations)
        return _was_integer(body[-1].operands[ir.OpResult(value).result_number])
    if owner.name.startswith("tensor.") and len(owner.operands):
        return _was_integer(owner.operands[0])
    return owner.name in ("arith.sitofp", "arith.uitofp")


def _carried(user: ir.Operation, operand: int) -> list[ir.Value]:
    """Values that hold the same numbers."""
    if user.name == "linalg.yield":
        return [user.parent.results[operand]]
    if user.name == "linalg.generic":
        return [user.regions[0].blocks[0].arguments[operand]]
    if user.name.startswith("tensor.") or user.name == "arith.select":
        return list(user.results)
    return []
