"""Find what models write by hand and a device may have a better way for.

    x * sigmoid(x)                              -> torch.aten.silu
    0.5 * x * (1 + tanh(c * (x + k * x**3)))    -> torch.aten.gelu "tanh"
    softmax(q @ k.T * scale + mask) @ v         -> torch.aten.scaled_dot_product_attention
    w * (x * rsqrt(mean(x**2) + eps))           -> a composite rms_norm of just these operations
    x * cos + cat(-x[half:], x[:half]) * sin    -> a composite rope of just these operations

It runs on the `torch` dialect right after import, where a pattern is a few named
operations. Each rewrite is proven from constants and shapes; one that nearly matched
says why not in the log (level DEBUG of `lemurc.passes.raise_patterns`).
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.dialects.locations import python_line
from lemurc.passes.base import Pass
from lemurc.passes.outline import is_composite
from lemurc.passes.raise_activations import raise_gelu, raise_silu
from lemurc.passes.raise_attention import raise_attention
from lemurc.passes.raise_norms import raise_rms_norm
from lemurc.passes.raise_rope import raise_rope
from lemurc.passes.torch_match import Refused
from lemurc.passes.torch_rewriter import Rewriter

logger = logging.getLogger(__name__)

Pattern = Callable[[ir.Operation, Rewriter], bool]
"""True when it replaced the operation it was given; Refused when it nearly matched."""

_PATTERNS: dict[str, list[Pattern]] = {
    "torch.aten.mul.Tensor": [raise_rms_norm, raise_gelu, raise_silu],
    "torch.aten.add.Tensor": [raise_rope],
    "torch.aten.matmul": [raise_attention],
    "torch.aten.bmm": [raise_attention],
}


@dataclass(frozen=True)
class RaisePatterns(Pass):
    """Name what is written out; the largest match wins, as roots are tried last to first."""

    name: ClassVar[str] = "raise-patterns"
    optional: ClassVar[bool] = True

    def run(self, module: ir.Operation) -> None:
        rewriter = Rewriter(module)
        for function in list(module.regions[0].blocks[0].operations):
            if function.operation.name != "func.func" or is_composite(function.operation):
                continue
            for block in function.operation.regions[0].blocks:
                for operation in reversed([op.operation for op in block.operations]):
                    _raise(operation, rewriter)
        rewriter.finish()


def _raise(root: ir.Operation, rewriter: Rewriter) -> None:
    for pattern in _PATTERNS.get(root.name, ()):
        if rewriter.is_dead(root):
            return
        try:
            if pattern(root, rewriter):
                return
        except Refused as refusal:
            line = python_line(root.location) or "unknown line"
            logger.debug("%s at %s: %s", pattern.__name__, line, refusal)
