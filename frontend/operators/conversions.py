"""Conversions to narrow integers, and of integers and f64 to bf16; views of bits as bits.

IREE's code for the CPU saturates where LLVM may take any value: 200.0 becomes 127 as an
unsigned byte, whose 8 bits are signed there. Eager converts to 32 bits and keeps the
lowest, on the machines it runs on; so do these, which settles 300.0 as int8 as well.
LLVM has no code for an integer or f64 that becomes bf16; eager goes through f32, too.
The bits of a byte, signed or not, are those of the number modulo 256: no bits are moved.
Views of another width are put together from integers: a wide number is its parts, the lowest
first. Those of the same width are left to a pass.
"""

from typing import Any

import torch

from lemurc.frontend.operators.floating import Table

_NARROW = (torch.int8, torch.int16, torch.uint8)
_BYTES = (torch.int8, torch.uint8)
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""By size in bytes."""


def convert(x: torch.Tensor, *, dtype: torch.dtype | None = None, **layout: Any) -> Any:
    if dtype is torch.bfloat16 and (x.dtype is torch.float64 or _is_integer(x)):
        return x.to(torch.float32).to(dtype)
    if dtype not in _NARROW or not x.is_floating_point():
        return NotImplemented
    return x.to(torch.int32).to(dtype)


def view(x: torch.Tensor, dtype: torch.dtype) -> Any:
    if x.dtype in (*_BYTES, torch.bool) and dtype in _BYTES:
        return x.to(dtype, copy=True)
    if x.dtype.is_complex or dtype.is_complex or torch.bool in (x.dtype, dtype):
        return NotImplemented
    if x.dtype.itemsize == dtype.itemsize:
        return NotImplemented
    if x.dtype.itemsize > dtype.itemsize:
        return _parts(x, _INTEGERS[dtype.itemsize]).view(dtype)
    return _together(x, _INTEGERS[dtype.itemsize]).view(dtype)


def _parts(x: torch.Tensor, narrow: torch.dtype) -> torch.Tensor:
    whole, bits = x.view(_INTEGERS[x.dtype.itemsize]), 8 * narrow.itemsize
    count = x.dtype.itemsize // narrow.itemsize
    parts = [(whole >> (bits * part) if part else whole) for part in range(count)]
    return torch.stack([part.to(narrow) for part in parts], -1).flatten(-2)


def _together(x: torch.Tensor, wide: torch.dtype) -> torch.Tensor:
    narrow = x.view(_INTEGERS[x.dtype.itemsize])
    count, bits = wide.itemsize // x.dtype.itemsize, 8 * x.dtype.itemsize
    parts = narrow.unflatten(-1, (narrow.shape[-1] // count, count)).to(wide)
    whole = parts.select(-1, count - 1) << (bits * (count - 1))
    for part in range(count - 1):
        low = parts.select(-1, part) & ((1 << bits) - 1)
        whole = whole | (low << (bits * part) if part else low)
    return whole


def _is_integer(x: torch.Tensor) -> bool:
    return not (x.is_floating_point() or x.is_complex())


def convert_element_type(x: torch.Tensor, dtype: torch.dtype) -> Any:
    return convert(x, dtype=dtype)


TABLE: Table = {
    torch.ops.aten._to_copy.default: convert,
    torch.ops.aten.view.dtype: view,
    torch.ops.prims.convert_element_type.default: convert_element_type,
}
