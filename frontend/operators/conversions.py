"""Conversions to narrow integers, and of integers and f64 to bf16; views of bytes as bytes.

IREE's code for the CPU saturates where LLVM may take any value: 200.0 becomes 127 as an
unsigned byte, whose 8 bits are signed there. Eager converts to 32 bits and keeps the
lowest, on the machines it runs on; so do these, which settles 300.0 as int8 as well.
LLVM has no code for an integer or f64 that becomes bf16; eager goes through f32, too.
The bits of a byte, signed or not, are those of the number modulo 256: no bits are moved.
"""

from typing import Any

import torch

from lemurc.frontend.operators.floating import Table

_NARROW = (torch.int8, torch.int16, torch.uint8)
_BYTES = (torch.int8, torch.uint8)


def convert(x: torch.Tensor, *, dtype: torch.dtype | None = None, **layout: Any) -> Any:
    if dtype is torch.bfloat16 and (x.dtype is torch.float64 or _is_integer(x)):
        return x.to(torch.float32).to(dtype)
    if dtype not in _NARROW or not x.is_floating_point():
        return NotImplemented
    return x.to(torch.int32).to(dtype)


def view(x: torch.Tensor, dtype: torch.dtype) -> Any:
    if x.dtype in (*_BYTES, torch.bool) and dtype in _BYTES:
        return x.to(dtype, copy=True)
    return NotImplemented


def _is_integer(x: torch.Tensor) -> bool:
    return not (x.is_floating_point() or x.is_complex())


def convert_element_type(x: torch.Tensor, dtype: torch.dtype) -> Any:
    return convert(x, dtype=dtype)


TABLE: Table = {
    torch.ops.aten._to_copy.default: convert,
    torch.ops.aten.view.dtype: view,
    torch.ops.prims.convert_element_type.default: convert_element_type,
}
