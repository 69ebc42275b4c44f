"""Conversions to narrow integers, and of integers and f64 to bf16.

IREE's code for the CPU saturates where LLVM may take any value: 200.0 becomes 127 as an
unsigned byte, whose 8 bits are signed there. Eager converts to 32 bits and keeps the
lowest, on the machines it runs on; so do these, which settles 300.0 as int8 as well.
LLVM has no code for an integer or f64 that becomes bf16; eager goes through f32, too.
"""

from typing import Any

import torch

from lemurc.frontend.operators.floating import Table

_NARROW = (torch.int8, torch.int16, torch.uint8)


def convert(x: torch.Tensor, *, dtype: torch.dtype | None = None, **layout: Any) -> Any:
    if dtype is torch.bfloat16 and (x.dtype is torch.float64 or _is_integer(x)):
        return x.to(torch.float32).to(dtype)
    if dtype not in _NARROW or not x.is_floating_point():
        return NotImplemented
    return x.to(torch.int32).to(dtype)


def _is_integer(x: torch.Tensor) -> bool:
    return not (x.is_floating_point() or x.is_complex())


def convert_element_type(x: torch.Tensor, dtype: torch.dtype) -> Any:
    return convert(x, dtype=dtype)


TABLE: Table = {
    torch.ops.aten._to_copy.default: convert,
    torch.ops.prims.convert_element_type.default: convert_element_type,
}
