"""torch-mlir's lowering from `torch` to `linalg`, with all that it cannot do said at once."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.passes.base import Pass
from lemurc.passes.lone_lowering import has_hazard
from lemurc.passes.torch_mlir_lowering import torch_mlir_lowering
from lemurc.passes.unsupported import unsupported_operations


@dataclass(frozen=True)
class ConvertTorch(Pass):
    """Decompose, infer shapes and convert; UnsupportedModelError lists what remains."""

    name: ClassVar[str] = "convert-torch"

    def run(self, module: ir.Operation) -> None:
        if has_hazard(module):
            refused = unsupported_operations(module, "")
            assert refused is not None
            raise refused
        before = module.clone()
        try:
            torch_mlir_lowering().run(module)
        except ir.MLIRError as error:
            reported = unsupported_operations(before, str(error))
            if reported is not None:
                raise reported from error
            raise
