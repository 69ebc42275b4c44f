"""Decompositions that neither PyTorch nor torch-mlir has, in operators both lower.

Each has sizes that do not depend on values: the price is work that eager skips.
"""

from collections.abc import Callable
from typing import Any

import torch


def own_decompositions() -> dict[Any, Callable[..., Any]]:
    """By overload; operators of libraries that are not loaded are left out."""
    table: dict[Any, Callable[..., Any]] = {torch.ops.aten.histc.default: _histc}
    for namespace, name in (("transformers", "grouped_mm_fallback"), ("aten", "_grouped_mm")):
        operator = getattr(getattr(torch.ops, namespace), name, None)
        if operator is not None:
            table[operator.default] = _grouped_mm
    return table


def _histc(values: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """Counts of values in `bins` equal intervals, by comparing each value with each bin."""
    if min >= max:  # the range is that of the values
        return NotImplemented
    flat = values.flatten()
    wide = flat if flat.is_floating_point() else flat.to(torch.float32)
    place = ((wide - min) / (max - min) * bins).to(torch.int64).clamp(max=bins - 1)
    inside = (wide >= min) & (wide <= max)
    hits = (place[:, None] == torch.arange(bins)) & inside[:, None]
    return hits.sum(0).to(values.dtype)


def _grouped_mm(
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
