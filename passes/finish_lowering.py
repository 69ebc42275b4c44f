"""The last look at level `linalg`: restore marks, refuse silent mistakes.

torch-mlir's type conversion makes calls anew and drops `no_inline` and `lemur.host`. Where
it cannot prove a dynamic size it may take it for 1 and say so only as a cast:

    tensor.cast %x : tensor<?x?x32xf32> to tensor<?x1x32xf32>      refused

A program with such a cast is wrong at every other size, so there is none.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch_mlir import ir

from lemurc.dialects.locations import module_path, python_line
from lemurc.errors import UnsupportedModelError
from lemurc.passes.base import Pass
from lemurc.passes.host_calls import ATTRIBUTE
from lemurc.passes.outline import is_composite


@dataclass(frozen=True)
class FinishLowering(Pass):
    """Mark calls of composites and of operators on the host; refuse narrowing casts and
    torch leftovers."""

    name: ClassVar[str] = "finish-lowering"

    def run(self, module: ir.Operation) -> None:
        leftovers: list[str] = []
        narrowed: list[str] = []
        functions = [op.operation for op in module.regions[0].blocks[0].operations]
        composites = {op.attributes["sym_name"].value for op in functions if is_composite(op)}
        on_host = {
            op.attributes["sym_name"].value: op.attributes[ATTRIBUTE]
            for op in functions
            if ATTRIBUTE in op.attributes
        }

        def visit(operation: ir.Operation) -> Any:
            name = operation.name
            if name == "func.call" and operation.attributes["callee"].value in composites:
                operation.attributes["no_inline"] = ir.UnitAttr.get()
            elif name == "func.call" and operation.attributes["callee"].value in on_host:
                operation.attributes[ATTRIBUTE] = on_host[operation.attributes["callee"].value]
            elif name.startswith(("torch.", "torch_c.")):
                leftovers.append(f"{name} at {_where(operation)}")
            elif name == "tensor.cast" and _narrows(operation):
                narrowed.append(_where(operation))
            return ir.WalkResult.ADVANCE

        module.walk(visit)
        if narrowed:
            raise UnsupportedModelError(
                "a dynamic size would be taken for a constant by the lowering",
                code="dynamic-size-specialised",
                where="; ".join(sorted(set(narrowed))),
                hint="give this dimension a fixed size, or rewrite the line so that sizes "
                "are not merged or broadcast there",
            )
        if leftovers:
            raise UnsupportedModelError(
                f"operations that no lowering handles: {'; '.join(sorted(set(leftovers)))}",
                code="unsupported-ops",
                hint="rewrite these lines with other PyTorch operations",
            )


def _where(operation: ir.Operation) -> str:
    path, line = module_path(operation.location), python_line(operation.location)
    return " ".join(part for part in (line, f"({path})" if path else "") if part) or "unknown line"


def _narrows(cast: ir.Operation) -> bool:
    source, target = cast.operands[0].type, cast.results[0].type
    if not (isinstance(source, ir.RankedTensorType) and isinstance(target, ir.RankedTensorType)):
        return True
    pairs = range(source.rank)
    return any(source.is_dynamic_dim(i) and not target.is_dynamic_dim(i) for i in pairs)
