"""Products of vectors with batches of matrices, which torch-mlir refuses."""

from typing import Any

import torch

from lemurc.frontend.operators.floating import Table


def matmul(x: torch.Tensor, y: torch.Tensor) -> Any:
    if x.dim() > 2 and y.dim() == 1:
        return torch.matmul(x, y.unsqueeze(-1)).squeeze(-1)
    if x.dim() == 1 and y.dim() > 2:
        return torch.matmul(x.unsqueeze(0), y).squeeze(-2)
    return NotImplemented


TABLE: Table = {torch.ops.aten.matmul.default: matmul}
