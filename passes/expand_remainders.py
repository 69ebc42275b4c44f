"""Remainders of floats in whole numbers.

    arith.remf %x, %y : f32   ->   the significands' remainder, a few bits of the quotient a turn

IREE links no `fmod` for f64, and what SPIR-V has rounds the quotient: it is wrong where the
quotient is large or y infinite. The remainder has the sign of x and is exact, as C's `fmod` and
so eager's. That of a half is its f32's.

Nothing but the numbers' bits takes part: devices may flush subnormal numbers in arithmetic, and
compilers may take comparisons with NaN for impossible.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith

from lemurc.passes.base import Pass
from lemurc.passes.inline_template import inlined
from lemurc.passes.walking import operations

_TEMPLATE = """
func.func private @remainder(%x: {float}, %y: {float}) -> {float} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : {bits}
  %one = arith.constant 1 : {bits}
  %chunk = arith.constant {chunk} : {bits}
  %mantissa = arith.constant {mantissa} : {bits}
  %hidden = arith.constant {hidden} : {bits}
  %fraction = arith.constant {fraction} : {bits}
  %magnitude = arith.constant {magnitude} : {bits}
  %infinity = arith.constant {infinity} : {bits}
  %nan = arith.constant {nan} : {bits}
  %unit = arith.constant {unit} : {bits}

  // |x| = xm 2^(xe - unit) and |y| = ym 2^(ye - unit); ym is 1 instead of 0
  %xi = arith.bitcast %x : {float} to {bits}
  %xs = arith.andi %xi, %magnitude : {bits}
  %xe0 = arith.shrui %xs, %mantissa : {bits}
  %xe = arith.maxui %xe0, %one : {bits}
  %xf = arith.andi %xs, %fraction : {bits}
  %xh = arith.ori %xf, %hidden : {bits}
  %xn = arith.cmpi ne, %xe0, %zero : {bits}
  %xm = arith.select %xn, %xh, %xf : {bits}
  %yi = arith.bitcast %y : {float} to {bits}
  %ys = arith.andi %yi, %magnitude : {bits}
  %ye0 = arith.shrui %ys, %mantissa : {bits}
  %ye = arith.maxui %ye0, %one : {bits}
  %yf = arith.andi %ys, %fraction : {bits}
  %yh = arith.ori %yf, %hidden : {bits}
  %yn = arith.cmpi ne, %ye0, %zero : {bits}
  %ym0 = arith.select %yn, %yh, %yf : {bits}
  %ym = arith.maxui %ym0, %one : {bits}

  // xm 2^(xe - ye) modulo ym
  %gap0 = arith.subi %xe, %ye : {bits}
  %gap = arith.maxsi %gap0, %zero : {bits}
  %turns0 = arith.divui %gap, %chunk : {bits}
  %turns = arith.index_cast %turns0 : {bits} to index
  %rest0 = arith.remui %xm, %ym : {bits}
  %rest1 = scf.for %i = %c0 to %turns step %c1 iter_args(%rest = %rest0) -> ({bits}) {{
    %shifted = arith.shli %rest, %chunk : {bits}
    %next = arith.remui %shifted, %ym : {bits}
    scf.yield %next : {bits}
  }}
  %last = arith.remui %gap, %chunk : {bits}
  %rest2 = arith.shli %rest1, %last : {bits}
  %rest3 = arith.remui %rest2, %ym : {bits}

  // times 2^(ye - unit): added to the exponent, or a shift where that leaves none
  %whole = arith.uitofp %rest3 : {bits} to {float}
  %wi = arith.bitcast %whole : {float} to {bits}
  %we = arith.shrui %wi, %mantissa : {bits}
  %raised = arith.addi %we, %ye : {bits}
  %normal = arith.cmpi ugt, %raised, %unit : {bits}
  %by = arith.subi %ye, %unit : {bits}
  %up = arith.shli %by, %mantissa : {bits}
  %moved = arith.addi %wi, %up : {bits}
  %below = arith.subi %ye, %one : {bits}
  %low = arith.minui %below, %mantissa : {bits}
  %shift = arith.shli %rest3, %low : {bits}
  %scaled0 = arith.select %normal, %moved, %shift : {bits}
  %divisible = arith.cmpi eq, %rest3, %zero : {bits}
  %scaled = arith.select %divisible, %zero, %scaled0 : {bits}

  %less = arith.cmpi ult, %xs, %ys : {bits}
  %size = arith.select %less, %xs, %scaled : {bits}
  %sign = arith.xori %xi, %xs : {bits}
  %signed = arith.ori %size, %sign : {bits}
  %finite = arith.cmpi ult, %xs, %infinity : {bits}
  %divides = arith.cmpi ne, %ys, %zero : {bits}
  %number = arith.cmpi ule, %ys, %infinity : {bits}
  %sound0 = arith.andi %finite, %divides : i1
  %sound = arith.andi %sound0, %number : i1
  %chosen = arith.select %sound, %signed, %nan : {bits}
  %result = arith.bitcast %chosen : {bits} to {float}
  return %result : {float}
}}
"""


def _template(width: int, mantissa: int) -> str:
    exponent = width - 1 - mantissa
    infinity = ((1 << exponent) - 1) << mantissa
    return _TEMPLATE.format(
        float=f"f{width}",
        bits=f"i{width}",
        chunk=width - 1 - (mantissa + 1),  # a significand so much to the left is still positive
        mantissa=mantissa,
        hidden=1 << mantissa,
        fraction=(1 << mantissa) - 1,
        magnitude=(1 << (width - 1)) - 1,
        infinity=infinity,
        nan=infinity | 1 << (mantissa - 1),
        unit=(1 << (exponent - 1)) - 1 + mantissa,
    )


_TEMPLATES = {"f32": _template(32, 23), "f64": _template(64, 52)}
_HALVES = ("f16", "bf16")


@dataclass(frozen=True)
class ExpandRemainders(Pass):
    name: ClassVar[str] = "expand-remainders"

    def run(self, module: ir.Operation) -> None:
        for operation in operations(module, _is_remainder):
            operation.results[0].replace_all_uses_with(_expanded(operation))
            operation.erase()


def _is_remainder(operation: ir.Operation) -> bool:
    return operation.name == "arith.remf" and _float(operation) in (*_TEMPLATES, *_HALVES)


def _float(operation: ir.Operation) -> str:
    return str(operation.results[0].type)


def _expanded(operation: ir.Operation) -> ir.Value:
    if _float(operation) in _TEMPLATES:
        return inlined(_TEMPLATES[_float(operation)], list(operation.operands), operation)
    wide = ir.F32Type.get(operation.context)
    with ir.InsertionPoint(operation), operation.location:
        x, y = (arith.extf(wide, operand) for operand in operation.operands)
        remainder = inlined(_TEMPLATES["f32"], [x, y], operation)
        return arith.truncf(operation.results[0].type, remainder)
