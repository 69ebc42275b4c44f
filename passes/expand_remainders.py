"""The remainder of f64 in whole numbers, since IREE links no `fmod`.

    arith.remf %x, %y : f64   ->   the significands' remainder, ten bits of the quotient a turn

The remainder has the sign of x and is exact, as C's `fmod` and so eager's.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.passes.base import Pass
from lemurc.passes.inline_template import inlined
from lemurc.passes.walking import operations

_TEMPLATE = """
func.func private @remainder(%x: f64, %y: f64) -> f64 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %ten = arith.constant 10 : i64
  %bits = arith.constant 52 : i64
  %hidden = arith.constant 4503599627370496 : i64
  %fraction = arith.constant 4503599627370495 : i64
  %no_size = arith.constant 0.0 : f64
  %infinity = arith.constant 0x7FF0000000000000 : f64
  %nan = arith.constant 0x7FF8000000000000 : f64

  // |x| = xm 2^(xe - 1075) and |y| = ym 2^(ye - 1075); ym is 1 instead of 0
  %xs = math.absf %x : f64
  %xi = arith.bitcast %xs : f64 to i64
  %xe0 = arith.shrui %xi, %bits : i64
  %xe = arith.maxui %xe0, %one : i64
  %xf = arith.andi %xi, %fraction : i64
  %xh = arith.ori %xf, %hidden : i64
  %xn = arith.cmpi ne, %xe0, %zero : i64
  %xm = arith.select %xn, %xh, %xf : i64
  %ys = math.absf %y : f64
  %yi = arith.bitcast %ys : f64 to i64
  %ye0 = arith.shrui %yi, %bits : i64
  %ye = arith.maxui %ye0, %one : i64
  %yf = arith.andi %yi, %fraction : i64
  %yh = arith.ori %yf, %hidden : i64
  %yn = arith.cmpi ne, %ye0, %zero : i64
  %ym0 = arith.select %yn, %yh, %yf : i64
  %ym = arith.maxui %ym0, %one : i64

  // xm 2^(xe - ye) modulo ym
  %gap0 = arith.subi %xe, %ye : i64
  %gap = arith.maxsi %gap0, %zero : i64
  %turns0 = arith.divui %gap, %ten : i64
  %turns = arith.index_cast %turns0 : i64 to index
  %rest0 = arith.remui %xm, %ym : i64
  %rest1 = scf.for %i = %c0 to %turns step %c1 iter_args(%rest = %rest0) -> (i64) {
    %shifted = arith.shli %rest, %ten : i64
    %next = arith.remui %shifted, %ym : i64
    scf.yield %next : i64
  }
  %last = arith.remui %gap, %ten : i64
  %rest2 = arith.shli %rest1, %last : i64
  %rest3 = arith.remui %rest2, %ym : i64

  // times 2^(ye - 1075), in two factors that are both normal numbers
  %whole = arith.uitofp %rest3 : i64 to f64
  %e1 = arith.constant 485 : i64
  %p1 = arith.addi %ye, %e1 : i64
  %p2 = arith.constant 486 : i64
  %b1 = arith.shli %p1, %bits : i64
  %b2 = arith.shli %p2, %bits : i64
  %f1 = arith.bitcast %b1 : i64 to f64
  %f2 = arith.bitcast %b2 : i64 to f64
  %near = arith.mulf %whole, %f1 : f64
  %scaled = arith.mulf %near, %f2 : f64

  %less = arith.cmpf olt, %xs, %ys : f64
  %size = arith.select %less, %xs, %scaled : f64
  %signed = math.copysign %size, %x : f64
  %finite = arith.cmpf olt, %xs, %infinity : f64
  %divides = arith.cmpf ogt, %ys, %no_size : f64
  %sound = arith.andi %finite, %divides : i1
  %result = arith.select %sound, %signed, %nan : f64
  return %result : f64
}
"""


@dataclass(frozen=True)
class ExpandRemainders(Pass):
    name: ClassVar[str] = "expand-remainders"

    def run(self, module: ir.Operation) -> None:
        for operation in operations(module, _is_remainder):
            made = inlined(_TEMPLATE, list(operation.operands), operation)
            operation.results[0].replace_all_uses_with(made)
            operation.erase()


def _is_remainder(operation: ir.Operation) -> bool:
    return operation.name == "arith.remf" and str(operation.results[0].type) == "f64"
