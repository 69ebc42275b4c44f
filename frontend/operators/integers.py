"""Integers of 8 bits, and operations with numbers, that torch-mlir crashes on or refuses.

torch-mlir 20261001 ends with a segmentation fault where it widens a number to the type
of an unsigned or signed byte. In 32 bits it is right, and cut down to 8 bits the result
is that of arithmetic modulo 256.
"""

from collections.abc import Callable
from typing import Any

import torch

from lemurc.frontend.operators.floating import Table
from lemurc.frontend.operators.floor_division import floor_divide

_BYTES = (torch.int8, torch.uint8)
_WIDE = (torch.int16, torch.int32, torch.int64)


def _in_32_bits(operator: Any) -> Callable[..., Any]:
    """Where all tensors are bytes."""

    def widened(*arguments: Any, **named: Any) -> Any:
        tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
        if any(tensor.dtype not in _BYTES for tensor in tensors):
            return NotImplemented
        dtype = tensors[0].dtype
        for tensor in tensors[1:]:
            dtype = torch.promote_types(dtype, tensor.dtype)
        wide = [a.to(torch.int32) if isinstance(a, torch.Tensor) else a for a in arguments]
        return operator(*wide, **named).to(dtype)

    return widened


def _with_number_in_32_bits(operator: Any) -> Callable[..., Any]:
    """Where one operand is bytes and the other a Python integer; integers of one width."""
    in_32_bits, of_one_type = _in_32_bits(operator), _of_one_type(operator)

    def widened(x: Any, y: Any) -> Any:
        if torch.result_type(x, y).is_floating_point:
            return NotImplemented
        if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
            return of_one_type(x, y)
        return in_32_bits(x, y)

    return widened


def divide(left: Any, right: Any, *, rounding_mode: str | None) -> Any:
    """Of integers as integers: bytes in 32 bits, and no quotient by way of f64.

    The floor of floats is in floor_division.py.
    """
    tensors = [item for item in (left, right) if isinstance(item, torch.Tensor)]
    dtype = torch.result_type(left, right)
    if rounding_mode == "floor" and dtype.is_floating_point:
        return floor_divide(left, right)
    if rounding_mode is None or dtype not in (*_BYTES, *_WIDE):
        return NotImplemented
    if rounding_mode == "trunc" and len(tensors) == 2 and dtype in _WIDE:
        return NotImplemented
    wide = torch.int32 if dtype in _BYTES else dtype
    left, right = (
        item.to(dtype).to(wide)
        if isinstance(item, torch.Tensor)
        else torch.full((), item, dtype=wide)
        for item in (left, right)
    )
    quotient = torch.div(left, right, rounding_mode="trunc")
    if rounding_mode == "floor":
        rest = left - quotient * right
        below = (rest != 0) & ((rest < 0) != (right < 0))
        quotient = quotient - below.to(wide)
    return quotient.to(dtype)


def _with_tensor(operator: Any) -> Callable[..., Any]:
    """An operator with a number as one with a tensor."""

    def widened(values: torch.Tensor, number: Any) -> torch.Tensor:
        return operator(values, torch.full((), number, dtype=values.dtype))

    return widened


def _of_one_type(operator: Any) -> Callable[..., Any]:
    """torch-mlir crashes on integers of different widths."""

    def promoted(x: torch.Tensor, y: torch.Tensor) -> Any:
        if x.dtype is y.dtype:
            return NotImplemented
        dtype = torch.result_type(x, y)
        return operator(x.to(dtype), y.to(dtype))

    return promoted


def shift_left(values: torch.Tensor, by: Any) -> torch.Tensor:
    return torch.bitwise_left_shift(values, by)


def shift_right(values: torch.Tensor, by: Any) -> torch.Tensor:
    return torch.bitwise_right_shift(values, by)


def bincount(
    values: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0
) -> torch.Tensor:
    if values.dtype is torch.int64:
        return NotImplemented
    return torch.bincount(values.to(torch.int64), weights, minlength)


def full_like(values: torch.Tensor, fill: Any, **options: Any) -> torch.Tensor:
    dtype = options.get("dtype") or values.dtype
    if dtype not in _BYTES or not isinstance(fill, int):
        return NotImplemented
    # torch-mlir folds constants of unsigned bytes into literals of signed ones, so these are
    # not told as constants.
    true = torch.logical_or(torch.eq(values, values), torch.ne(values, values))
    return (true.to(torch.int32) + (fill - 1)).to(dtype)


def arange(start: Any, end: Any, step: Any = 1, **options: Any) -> torch.Tensor:
    if options.get("dtype") not in _BYTES:
        return NotImplemented
    return torch.arange(start, end, step, dtype=torch.int32).to(options["dtype"])


def scalar_tensor(number: Any, *, dtype: torch.dtype, device: Any = None) -> torch.Tensor:
    return torch.full((), number, dtype=dtype)


_aten = torch.ops.aten
TABLE: Table = {
    _aten.__lshift__.Tensor: shift_left,
    _aten.__rshift__.Tensor: shift_right,
    _aten.arange.start_step: arange,
    _aten.bincount.default: bincount,
    _aten.bitwise_and.Tensor: _of_one_type(_aten.bitwise_and.Tensor),
    _aten.bitwise_left_shift.Tensor_Scalar: _with_tensor(_aten.bitwise_left_shift.Tensor),
    _aten.bitwise_or.Scalar: _with_tensor(_aten.bitwise_or.Tensor),
    _aten.bitwise_or.Tensor: _of_one_type(_aten.bitwise_or.Tensor),
    _aten.bitwise_right_shift.Tensor_Scalar: _with_tensor(_aten.bitwise_right_shift.Tensor),
    _aten.bitwise_xor.Scalar: _with_tensor(_aten.bitwise_xor.Tensor),
    _aten.bitwise_xor.Tensor: _of_one_type(_aten.bitwise_xor.Tensor),
    _aten.bmm.default: _in_32_bits(torch.bmm),
    _aten.div.Scalar_mode: divide,
    _aten.div.Tensor_mode: divide,
    _aten.full_like.default: full_like,
    _aten.matmul.default: _in_32_bits(torch.matmul),
    _aten.max.default: _in_32_bits(torch.max),
    _aten.min.default: _in_32_bits(torch.min),
    _aten.mm.default: _in_32_bits(torch.mm),
    _aten.mul.Scalar: _with_number_in_32_bits(torch.mul),
    _aten.mul.Tensor: _with_number_in_32_bits(torch.mul),
    _aten.remainder.Scalar: _with_number_in_32_bits(torch.remainder),
    torch.ops.prims.scalar_tensor.default: scalar_tensor,
}
