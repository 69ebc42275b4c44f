"""Integers and booleans: exact, wrapping at their width, division rounding as eager's does."""

import torch

from lemurc.tools.conformance_cases.case import Expression, whole

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
SHORT = {
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
}


def _pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    low = 0 if dtype == torch.uint8 else -100
    x = whole(200, low=low, high=100, dtype=dtype)
    y = whole(200, low=1, high=9, seed=1, dtype=dtype)
    sign = 1 if dtype == torch.uint8 else 2 * whole(200, low=0, high=2, seed=2, dtype=dtype) - 1
    return x, y * sign


def _arithmetic(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    return [x + y, x - y, x * y, torch.maximum(x, y), torch.minimum(x, y), x.abs(), x == y, x < y]


def _division(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    return [
        torch.div(x, y, rounding_mode="floor"),
        torch.div(x, y, rounding_mode="trunc"),
        torch.remainder(x, y),
        torch.fmod(x, y),
    ]


def _bits(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    return [x & y, x | y, x ^ y, ~x, x << 2, x >> 1]


def _wraps(x: torch.Tensor) -> list[torch.Tensor]:
    return [x + x, x * x, -x]


def _logic(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    return [a & b, a | b, a ^ b, ~a, a == b, torch.where(a, b, ~b), a.any(-1), b.all(-1), a.sum(-1)]


def _limits(dtype: torch.dtype) -> torch.Tensor:
    info = torch.iinfo(dtype)
    return torch.tensor([info.min, info.min + 1, -1, 0, 1, info.max - 1, info.max], dtype=dtype)


def _mask(seed: int) -> torch.Tensor:
    return whole(4, 6, low=0, high=2, seed=seed, dtype=torch.bool)


EXPRESSIONS = (
    *(Expression(f"arithmetic_{SHORT[t]}", _arithmetic, (_pairs(t),)) for t in INTEGERS),
    *(Expression(f"division_{SHORT[t]}", _division, (_pairs(t),)) for t in INTEGERS),
    *(Expression(f"bits_{SHORT[t]}", _bits, (_pairs(t),)) for t in INTEGERS),
    *(Expression(f"wraps_{SHORT[t]}", _wraps, ((_limits(t),),)) for t in INTEGERS[:4]),
    Expression("booleans", _logic, ((_mask(0), _mask(1)), (_mask(2), _mask(3)))),
    Expression(
        "sums_i32",
        lambda x: [
            x.sum(-1, dtype=torch.int32),
            x.amax(-1),
            x.amin(0),
            x.prod(-1, dtype=torch.int32),
        ],
        ((whole(5, 7, low=-9, high=9, dtype=torch.int32),),),
    ),
    Expression(
        "to_floats",
        lambda x: [x.to(torch.float32), x.to(torch.bool), x.to(torch.int8)],
        ((whole(50, low=-300, high=300, dtype=torch.int32),),),
    ),
)
