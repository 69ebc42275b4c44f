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
    def decompose(*arguments: Any, **named: Any) -> Any:
        tensors = [item for item in arguments if isinstance(item, torch.Tensor)]
        if overload._overloadpacket is torch.ops.aten.scatter_reduce:
            tensors = tensors[:1]  # not its indices
        if all(tensor.dtype is not torch.uint8 for tensor in tensors):
            return otherwise(*arguments, **named) if otherwise else NotImplemented
        dtype = functools.reduce(torch.promote_types, _promoting(tensors))
        wide = [item.to(torch.int32) if _is_byte(item) else item for item in arguments]
        made = overload(*wide, **named)
        if isinstance(made, (tuple, list)):
            return tuple(_cut(item, dtype) for item in made)
        return _cut(made, dtype)

    return decompose


def _is_byte(item: Any) -> bool:
    return isinstance(item, torch.Tensor) and item.dtype is torch.uint8


def _promoting(tensors: list[torch.Tensor]) -> list[torch.dtype]:
    """Types that decide on the result's: scalars only where all are."""
    shaped = [tensor.dtype for tensor in tensors if tensor.dim()]
    return shaped or [tensor.dtype for tensor in tensors]


def _cut(made: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return made.to(dtype) if made.dtype is torch.int32 else made
