"""Integers of 8 bits, and operations with numbers, that torch-mlir crashes on or refuses.

torch-mlir 20261001 ends with a segmentation fault where it widens a number to the type
of an unsigned or signed byte. In 32 bits it is right, and cut down to 8 bits the result
is that of arithmetic modulo 256.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

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
        dtype = torch.result_type(x, y)
        return in_32_bits(_wrapped(x, dtype), _wrapped(y, dtype))

    return widened


def _wrapped(item: Any, dtype: torch.dtype) -> Any:
    """A number beside bytes as eager converts it to one of theirs."""
    if not isinstance(item, int) or dtype not in _BYTES:
        return item
    least = torch.iinfo(dtype).min
    return (item - least) % 256 + least


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
        else torch.full((), _wrapped(item, dtype), dtype=wide)
        for item in (left, right)
    )
    quotient = torch.div(left, right, rounding_mode="trunc")
    if rounding_mode == "floor":
        rest = left - quotient * right
        below = (rest != 0) & ((rest < 0) != (right < 0))
        quotient = quotient - below.to(wide)
    return quotient.to(dtype)


def _with_tensor(operator: Any) -> Callable[..., Any]:
    """An operator with a number, on either side, as one with a tensor."""

    def widened(x: Any, y: Any) -> torch.Tensor:
        dtype = torch.result_type(x, y)
        return operator(*(_tensor(item, dtype) for item in (x, y)))

    return widened


def _tensor(item: Any, dtype: torch.dtype) -> torch.Tensor:
    """Of `dtype`, also where a tensor of rank 0 does not count in the choice of it."""
    if isinstance(item, torch.Tensor):
        return item.to(dtype)
    return torch.full((), _wrapped(item, dtype), dtype=dtype)


def _of_one_type(operator: Any, *, floats: bool = False) -> Callable[..., Any]:
    """torch-mlir crashes on integers of different widths; `floats` converts those, too."""

    def promoted(x: torch.Tensor, y: torch.Tensor) -> Any:
        dtype = torch.result_type(x, y)
        if x.dtype is y.dtype or (dtype.is_floating_point and not floats):
            return NotImplemented
        return operator(x.to(dtype), y.to(dtype))

    return promoted


def shift_left(values: Any, by: Any) -> Any:
    """Of a whole width or more, nothing is left."""
    return _shifted(torch.ops.aten.bitwise_left_shift.Tensor, values, by, nothing=True)


def shift_right(values: Any, by: Any) -> Any:
    """Of a whole width or more, the sign is left."""
    unsigned = torch.result_type(values, by) is torch.uint8
    return _shifted(torch.ops.aten.bitwise_right_shift.Tensor, values, by, nothing=unsigned)


def _shifted(operator: Any, values: Any, by: Any, *, nothing: bool) -> Any:
    dtype = torch.result_type(values, by)
    last = 8 * dtype.itemsize - 1
    values = _tensor(values, dtype)
    if isinstance(by, int):
        if not 0 <= by <= last:
            return torch.zeros_like(values) if nothing else operator(values, _tensor(last, dtype))
        return operator(values, _tensor(by, dtype))
    by = _tensor(by, dtype)
    inside = (by >= 0) & (by <= last)
    made = operator(values, torch.where(inside, by, _tensor(last, dtype)))
    return torch.where(inside, made, torch.zeros_like(made)) if nothing else made


def cat(tensors: list[torch.Tensor], dim: int = 0) -> Any:
    """Of several types, one of which torch-mlir would have to convert."""
    common = _common(tensors)
    if all(tensor.dtype is common for tensor in tensors):
        return NotImplemented
    return torch.cat([tensor.to(common) for tensor in tensors], dim)


def stack(tensors: list[torch.Tensor], dim: int = 0) -> Any:
    common = _common(tensors)
    if all(tensor.dtype is common for tensor in tensors):
        return NotImplemented
    return torch.stack([tensor.to(common) for tensor in tensors], dim)


def _common(tensors: list[torch.Tensor]) -> torch.dtype:
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND.NO_OPMATH
    dtype: torch.dtype = elementwise_dtypes(*tensors, type_promotion_kind=kind)[1]
    return dtype


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
    _aten.__lshift__.Scalar: shift_left,
    _aten.__lshift__.Tensor: shift_left,
    _aten.__rshift__.Scalar: shift_right,
    _aten.__rshift__.Tensor: shift_right,
    _aten.arange.start_step: arange,
    _aten.bincount.default: bincount,
    _aten.bitwise_left_shift.Scalar_Tensor: shift_left,
    _aten.bitwise_left_shift.Tensor_Scalar: shift_left,
    _aten.bitwise_right_shift.Scalar_Tensor: shift_right,
    _aten.bitwise_right_shift.Tensor_Scalar: shift_right,
    _aten.bmm.default: _in_32_bits(torch.bmm),
    _aten.cat.default: cat,
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
    _aten.stack.default: stack,
    torch.ops.prims.scalar_tensor.default: scalar_tensor,
}
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    _packet = getattr(_aten, _name)
    TABLE[_packet.Tensor] = _of_one_type(_packet.Tensor)
    TABLE[_packet.Scalar] = TABLE[_packet.Scalar_Tensor] = _with_tensor(_packet.Tensor)
for _name in ("bitwise_left_shift", "bitwise_right_shift", "eq", "ge", "gt", "le", "lt", "ne"):
    TABLE[getattr(_aten, _name).Tensor] = _of_one_type(getattr(_aten, _name).Tensor)
for _name in ("logical_and", "logical_or", "logical_xor"):
    TABLE[getattr(_aten, _name).default] = _of_one_type(getattr(_aten, _name).default, floats=True)
TABLE[_aten.remainder.Tensor] = _of_one_type(_aten.remainder.Tensor)
