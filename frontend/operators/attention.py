"""Attention in f64 whose head size is known only at run time.

The fused kernel that IREE 3.13 makes of it is good for f32's digits only.
"""

from typing import Any

import torch

from lemurc.frontend.operators.floating import Table


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    if query.dtype is not torch.float64 or isinstance(query.shape[-1], int):
        return NotImplemented
    if scale is None:
        size = torch.ones(query.shape[-1], dtype=query.dtype).sum()
        query, scale = query / torch.sqrt(size), 1.0
    made, _ = torch.ops.aten._scaled_dot_product_attention_math(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )
    return made


TABLE: Table = {torch.ops.aten.scaled_dot_product_attention.default: attention}
