"""Constants in the type they are used in.

    %c = arith.constant 1.0e-6 : f64
    %e = arith.truncf %c : f64 to f32      ->      %e = arith.constant 1.0e-6 : f32

    %w = arith.extf %x : f32 to f64
    %p = arith.cmpf olt, %w, %c : f64      ->      %p = arith.cmpf olt, %x, %e : f32

torch-mlir makes every Python float an f64 and rounds it where it is used; MLIR folds
that only when nothing is lost. A device without f64 could not run the rest. Comparisons
it makes in f64, where eager rounds the number: there x == 0.1 is true of the f32 0.1.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.passes.base import Pass
from lemurc.passes.walking import operations


@dataclass(frozen=True)
class FoldConstantCasts(Pass):
    """Round floating-point constants at compile time, to nearest, as the cast would."""

    name: ClassVar[str] = "fold-constant-casts"

    def run(self, module: ir.Operation) -> None:
        for operation in operations(module, lambda op: op.name in ("arith.truncf", "arith.cmpf")):
            if operation.name == "arith.truncf":
                _fold_cast(operation)
            else:
                _narrow_comparison(operation)


def _fold_cast(cast: ir.Operation) -> None:
    constant = _constant(cast.operands[0])
    if constant is not None:
        cast.results[0].replace_all_uses_with(_rounded(constant, cast.results[0].type))
        cast.erase()
        _erase_unused(constant)


def _narrow_comparison(comparison: ir.Operation) -> None:
    operands = list(comparison.operands)
    constants = [_constant(value) for value in operands]
    wide = [at for at, constant in enumerate(constants) if constant is None]
    if len(wide) != 1:
        return
    extension = _defining(operands[wide[0]])
    constant = constants[1 - wide[0]]
    if extension is None or extension.name != "arith.extf" or constant is None:
        return
    narrow = extension.operands[0]
    comparison.operands[wide[0]] = narrow
    comparison.operands[1 - wide[0]] = _rounded(constant, narrow.type)
    _erase_unused(extension)
    _erase_unused(constant)


def _rounded(constant: ir.Operation, kind: ir.Type) -> ir.Value:
    # beside the wide constant, so that loop bodies hold none
    with ir.InsertionPoint(constant), constant.location:
        value = ir.FloatAttr.get(kind, constant.attributes["value"].value)
        made = ir.Operation.create("arith.constant", results=[kind], attributes={"value": value})
    return made.results[0]


def _erase_unused(operation: ir.Operation) -> None:
    if not list(operation.results[0].uses):
        operation.erase()


def _defining(value: ir.Value) -> ir.Operation | None:
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def _constant(value: ir.Value) -> ir.Operation | None:
    operation = _defining(value)
    if operation is None:
        return None
    scalar = operation.name == "arith.constant" and isinstance(
        operation.attributes["value"], ir.FloatAttr
    )
    return operation if scalar else None
