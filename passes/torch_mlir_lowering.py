"""torch-mlir's own pipelines from `torch` to `linalg`, put together for calls."""

from torch_mlir.passmanager import PassManager

_TO_TORCH_BACKEND = (
    "func.func(torch-match-quantized-custom-ops)",
    # In pieces, attention without a mask has its softmax in the operands' type.
    "torchdynamo-export-to-torch-backend-pipeline"
    "{backend-legal-ops=aten.scaled_dot_product_attention}",
)
_TO_LINALG = "torch-backend-to-linalg-on-tensors-backend-pipeline"
_CONTRACT = ",torch-verify-linalg-on-tensors-backend-contract"
"""The last step of `_TO_LINALG`; it rejects calls, which is what composites are."""


def torch_mlir_lowering() -> PassManager:
    """Needs a current context. Sizes are made scalars first: views of them lower better."""
    whole = str(PassManager.parse(f"builtin.module({_TO_LINALG})"))
    to_linalg = whole.removeprefix("builtin.module(").removesuffix(")").replace(_CONTRACT, "")
    steps = [*_TO_TORCH_BACKEND, "func.func(torch-scalarize-shapes,canonicalize)", to_linalg]
    return PassManager.parse(f"builtin.module({','.join(steps)})")
