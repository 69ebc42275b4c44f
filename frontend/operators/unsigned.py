"""Unsigned bytes, computed in 32 bits.

torch-mlir 20261001 lowers many operators of uint8 as if the byte were signed: there
200 / 2 is -28, 200 > 130 is false, and sorting puts 200 before 1. Conversions are right,
so operands are widened and results of 32 bits cut down to the type that eager gives.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch

_NAMES = (
    "abs",
    "add",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "bitwise_right_shift",
    "clamp",
    "clamp_max",
    "clamp_min",
    "cumprod",
    "div",
    "eq",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "gcd",
    "ge",
    "gt",
    "hardtanh",
    "lcm",
    "le",
    "lt",
    "max",
    "maximum",
    "median",
    "min",
    "minimum",
    "mul",
    "ne",
    "neg",
    "pow",
    "prod",
    "relu",
    "remainder",
    "rsub",
    "scatter_reduce",
    "sign",
    "sort",
    "sub",
    "topk",
)
_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)
_QUOTIENTS = (torch.ops.aten.div.Tensor, torch.ops.aten.div.Scalar)
"""They compute in floats, so that a negative number stays one."""
Decompose = Callable[..., Any]


def with_wide_bytes(table: dict[Any, Decompose]) -> dict[Any, Decompose]:
    """`table`, with each operator above widened first where an operand is uint8."""
    wide: dict[Any, Decompose] = {}
    for name in _NAMES:
        packet = getattr(torch.ops.aten, name)
        for overload in (getattr(packet, key) for key in packet.overloads()):
            mutates = any(argument.is_out for argument in overload._schema.arguments)
            if not mutates and not _counts_dimensions_by_name(overload):
                wide[overload] = _widened(overload, table.get(overload))
    return table | wide


def _counts_dimensions_by_name(overload: Any) -> bool:
    return "names" in overload._overloadname or "dimname" in overload._overloadname


def _widened(overload: Any, otherwise: Decompose | None) -> Decompose:
    schema = overload._schema.arguments
    numbers = {a.name for a in schema if "number" in str(a.type) or "Tensor" in str(a.type)}
    places = [at for at, a in enumerate(schema) if a.name in numbers]

    def decompose(*arguments: Any, **named: Any) -> Any:
        tensors = [item for item in arguments if isinstance(item, torch.Tensor)]
        if overload._overloadpacket is torch.ops.aten.scatter_reduce:
            tensors = tensors[:1]  # not its indices
        if all(tensor.dtype is not torch.uint8 for tensor in tensors):
            return otherwise(*arguments, **named) if otherwise else NotImplemented
        dtype = functools.reduce(torch.promote_types, _promoting(tensors))
        operands = [item for at, item in enumerate(arguments) if at in places]
        operands += [item for key, item in named.items() if key in numbers]
        if _in_bytes(overload, dtype, operands):
            arguments = tuple(_byte(a) if at in places else a for at, a in enumerate(arguments))
            named = {k: _byte(item) if k in numbers else item for k, item in named.items()}
        made = overload(*map(_wide, arguments), **named)
        if isinstance(made, (tuple, list)):
            return tuple(_cut(item, dtype) for item in made)
        return _cut(made, dtype)

    return decompose


def _in_bytes(overload: Any, dtype: torch.dtype, operands: list[Any]) -> bool:
    """Does eager convert every operand to an unsigned byte first?"""
    if dtype is not torch.uint8 or overload in _QUOTIENTS:
        return False
    return not any(
        item.is_floating_point() if isinstance(item, torch.Tensor) else isinstance(item, float)
        for item in operands
    )


def _byte(item: Any) -> Any:
    """A number or a tensor of rank 0 beside unsigned bytes, as eager converts it."""
    if type(item) is int:
        return item % 256
    if isinstance(item, torch.Tensor) and not item.dim() and item.dtype in _INTEGERS:
        return item.to(torch.uint8)
    return item


def _wide(item: Any) -> Any:
    is_byte = isinstance(item, torch.Tensor) and item.dtype is torch.uint8
    return item.to(torch.int32) if is_byte else item


def _promoting(tensors: list[torch.Tensor]) -> list[torch.dtype]:
    """Types that decide on the result's: scalars only where all are."""
    shaped = [tensor.dtype for tensor in tensors if tensor.dim()]
    return shaped or [tensor.dtype for tensor in tensors]


def _cut(made: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return made.to(dtype) if made.dtype is torch.int32 else made
