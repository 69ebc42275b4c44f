"""Round constants at compile time.

    %e = arith.constant 1.0e-05 : f64          %e = arith.constant 9.99999974E-6 : f32
    arith.truncf %e : f64 to f32         ->

torch-mlir writes every Python float as f64 and rounds it where it is used. MLIR's own
folder leaves a rounding that loses bits alone; it is to nearest, ties to even, at run
time and here. Devices without f64 could not run a layer norm otherwise.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch_mlir import ir

from lemurc.passes.base import Pass


@dataclass(frozen=True)
class FoldConstantCasts(Pass):
    name: ClassVar[str] = "fold-constant-casts"

    def run(self, module: ir.Operation) -> None:
        casts: list[ir.Operation] = []

        def visit(operation: ir.Operation) -> Any:
            if operation.name == "arith.truncf" and _constant(operation.operands[0]) is not None:
                casts.append(operation)
            return ir.WalkResult.ADVANCE

        module.walk(visit)
        for cast in casts:
            kind = cast.results[0].type
            value = _constant(cast.operands[0])
            with ir.InsertionPoint(cast), cast.location:
                rounded = ir.Operation.create(
                    "arith.constant",
                    results=[kind],
                    attributes={"value": ir.FloatAttr.get(kind, value)},
                )
            cast.results[0].replace_all_uses_with(rounded.results[0])
            cast.erase()


def _constant(value: ir.Value) -> float | None:
    """The number `value` always is; None for anything but a scalar float constant."""
    producer = value.owner
    if isinstance(producer, ir.Block) or producer.name != "arith.constant":
        return None
    attribute = producer.operation.attributes["value"]
    return float(attribute.value) if isinstance(attribute, ir.FloatAttr) else None
