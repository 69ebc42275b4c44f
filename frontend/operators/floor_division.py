"""Floor division of floats as eager does it, which is not floor(x / y).

1.0 / 0.1 rounds to 10 while 1.0 // 0.1 is 9; so the remainder, which is exact, comes first.
"""

from typing import Any

import torch

from lemurc.frontend.operators.floating import HALVES


def floor_divide(x: Any, y: Any) -> torch.Tensor:
    """Each step rounds in the operands' type; by one number, halves are divided in f32.

    So that they are seen, the roundings to bf16 are casts (see passes/keep_roundings.py).
    """
    dtype = torch.result_type(x, y)
    alone = not isinstance(y, torch.Tensor) or y.numel() == 1
    wide = torch.float32 if alone and dtype in HALVES else dtype
    is_bf16 = wide is torch.bfloat16

    def rounded(value: torch.Tensor) -> torch.Tensor:
        return value.to(torch.bfloat16).to(torch.float32) if is_bf16 else value

    wide = torch.float32 if is_bf16 else wide
    x, y = (_as(item, dtype, wide) for item in (x, y))
    quotient = x / y
    rest = torch.fmod(x, y)
    whole = rounded(rounded(x - rest) / y)
    whole = torch.where((rest != 0) & ((y < 0) != (rest < 0)), rounded(whole - 1.0), whole)
    floor = torch.floor(whole)
    floor = torch.where(whole - floor > 0.5, floor + 1.0, floor)
    zero = torch.where(x == 0, quotient, 0.0)  # of the quotient's sign
    made = torch.where(y == 0, quotient, torch.where(whole == 0, zero, floor))
    return made.to(dtype)


def _as(item: Any, dtype: torch.dtype, wide: torch.dtype) -> torch.Tensor:
    if isinstance(item, torch.Tensor):
        return item.to(dtype).to(wide)
    return torch.full((), item, dtype=wide)
