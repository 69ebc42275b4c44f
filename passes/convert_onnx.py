"""Operators of ONNX to operations of PyTorch, with all that torch-mlir cannot do said at once.

    torch.operator "onnx.Gemm"(%x, %w, %b)   ->   torch.aten.mm, torch.aten.add.Tensor

Converted operator by operator and no further: linear layers, norms and softmax are still
whole for the passes that follow.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, ClassVar

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from lemurc.dialects.locations import module_path
from lemurc.errors import UnsupportedModelError
from lemurc.passes.base import Pass

_STEPS = "builtin.module(func.func(convert-torch-onnx-to-torch),func.func(canonicalize,cse))"
_NODES_SHOWN = 5


@dataclass(frozen=True)
class ConvertOnnx(Pass):
    """Convert every operator; UnsupportedModelError lists those that remain."""

    name: ClassVar[str] = "convert-onnx"

    def run(self, module: ir.Operation) -> None:
        try:
            PassManager.parse(_STEPS).run(module)
        except ir.MLIRError as error:
            refused = _unconverted(module)
            if refused is None:
                raise
            raise refused from error
        if (refused := _unconverted(module)) is not None:
            raise refused


def _unconverted(module: ir.Operation) -> UnsupportedModelError | None:
    nodes: dict[str, list[str]] = defaultdict(list)

    def visit(operation: ir.Operation) -> Any:
        if operation.name == "torch.operator":
            name = str(operation.attributes["name"].value)
            if name.startswith("onnx."):
                place = module_path(operation.location) or "?"
                nodes[name.removeprefix("onnx.")].append(place)
        return ir.WalkResult.ADVANCE

    module.walk(visit)
    if not nodes:
        return None
    listed = [
        f"{name} x{len(places)} at {', '.join(places[:_NODES_SHOWN])}"
        + (f" and {len(places) - _NODES_SHOWN} more" if len(places) > _NODES_SHOWN else "")
        for name, places in sorted(nodes.items())
    ]
    return UnsupportedModelError(
        "the model uses operators, or attributes of them, that torch-mlir does not convert:\n  "
        + "\n  ".join(listed),
        code="unsupported-ops",
        hint="export the model again with other operators, or from PyTorch with torch.export.save",
    )
