"""Grouped products of mixture-of-experts models."""

from typing import Any

import torch

from lemurc.frontend.operators.floating import Table


def grouped_mm(
    rows: torch.Tensor,
    weights: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Any:
    """Rows up to offs[e] times weights[e]: mixture-of-experts models, rows sorted by expert.

    Few rows gather their expert's weights; many go through every expert and keep one
    product. Rows after the last offset are 0.
    """
    if offs is None or bias is not None or rows.dim() != 2 or weights.dim() != 3:
        return NotImplemented
    count, experts = rows.shape[0], weights.shape[0]
    expert = (torch.arange(count)[:, None] >= offs[None, :]).sum(1)
    if isinstance(count, int) and count <= experts:
        chosen = weights[expert.clamp(max=experts - 1)]
        product = torch.matmul(rows[:, None], chosen)[:, 0]
        product = torch.where(expert[:, None] < experts, product, 0.0)
    else:
        all_products = torch.matmul(rows[None].expand(experts, -1, -1), weights)
        own = torch.arange(experts)[:, None] == expert[None, :]
        product = torch.where(own[:, :, None], all_products, 0.0).sum(0)
    return product.to(out_dtype or rows.dtype)


def table() -> Table:
    """Operators of libraries that are not loaded are left out."""
    found: Table = {}
    for namespace, name in (("transformers", "grouped_mm_fallback"), ("aten", "_grouped_mm")):
        operator = getattr(getattr(torch.ops, namespace), name, None)
        if operator is not None:
            found[operator.default] = grouped_mm
    return found
