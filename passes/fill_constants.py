"""Tensors of one constant are filled with it.

    %y:2 = linalg.generic outs(%a, %b) { yield %c, %d }   ->   %y0 = linalg.fill ins(%c) outs(%a)
                                                               %y1 = linalg.fill ins(%d) outs(%b)

torch-mlir leaves the first form of an index or update that is written in the model. IREE
3.13 gives its results one memory, and the second is what the first should be.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import linalg

from lemurc.passes.base import Pass
from lemurc.passes.walking import operations


@dataclass(frozen=True)
class FillConstants(Pass):
    name: ClassVar[str] = "fill-constants"

    def run(self, module: ir.Operation) -> None:
        for operation in operations(module, _yields_constants):
            values = list(operation.regions[0].blocks[0].operations[0].operands)
            with ir.InsertionPoint(operation), operation.location:
                for value, out, result in zip(
                    values, operation.operands, operation.results, strict=True
                ):
                    result.replace_all_uses_with(linalg.fill(value, outs=[out]))
            operation.erase()


def _yields_constants(operation: ir.Operation) -> bool:
    if operation.name != "linalg.generic" or len(operation.operands) != len(operation.results):
        return False
    block = operation.regions[0].blocks[0]
    end = block.operations[0].operation
    if end.name != "linalg.yield" or any(value.owner == block for value in end.operands):
        return False
    kinds = [str(kind) for kind in operation.attributes["iterator_types"]]
    return all("parallel" in kind for kind in kinds)
