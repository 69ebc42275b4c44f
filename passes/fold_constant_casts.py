"""Constants in the type they are used in.

    %c = arith.constant 1.0e-6 : f64
    %e = arith.truncf %c : f64 to f32      ->      %e = arith.constant 1.0e-6 : f32

torch-mlir makes every Python float an f64 and rounds it where it is used; MLIR folds
that only when nothing is lost. A device without f64 could not run the rest.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch_mlir import ir

from lemurc.passes.base import Pass


@dataclass(frozen=True)
class FoldConstantCasts(Pass):
    """Round floating-point constants at compile time, to nearest, as the cast would."""

    name: ClassVar[str] = "fold-constant-casts"

    def run(self, module: ir.Operation) -> None:
        casts: list[ir.Operation] = []

        def visit(operation: ir.Operation) -> Any:
            if operation.name == "arith.truncf" and _constant(operation.operands[0]) is not None:
                casts.append(operation)
            return ir.WalkResult.ADVANCE

        module.walk(visit)
        for cast in casts:
            constant = _constant(cast.operands[0])
            assert constant is not None
            # beside the wide constant, so that loop bodies hold none
            with ir.InsertionPoint(constant), constant.location:
                narrow = ir.Operation.create(
                    "arith.constant",
                    results=[cast.results[0].type],
                    attributes={
                        "value": ir.FloatAttr.get(
                            cast.results[0].type, constant.attributes["value"].value
                        )
                    },
                )
            cast.results[0].replace_all_uses_with(narrow.results[0])
            cast.erase()
            if not list(constant.results[0].uses):
                constant.erase()


def _constant(value: ir.Value) -> ir.Operation | None:
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    operation = owner.operation
    scalar = operation.name == "arith.constant" and isinstance(
        operation.attributes["value"], ir.FloatAttr
    )
    return operation if scalar else None
