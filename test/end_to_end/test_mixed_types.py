"""Operators over operands of every two types, against eager: values, types and shapes.

`python -m pytest -m long` runs every pair; the rest of the file is what was found wrong so.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import lemurc
from lemurc.frontend.arrays import to_array
from lemurc.verification import compare, tolerance_of

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
TYPES = (torch.bool, *INTEGERS, *FLOATS)
NUMBERS = {
    torch.bool: True,
    torch.uint8: 200,
    torch.int8: -3,
    torch.int16: 3,
    torch.int32: 300,
    torch.int64: 1,
    torch.float16: 2.5,
    torch.bfloat16: -1.5,
    torch.float32: 0.5,
    torch.float64: 3.25,
}
MASK = torch.arange(12) % 3 == 0
PER_MODULE = 50


def values(dtype: torch.dtype, special: bool) -> torch.Tensor:
    """Twelve numbers; of integers in another order, so that pairs differ."""
    if dtype is torch.bool:
        return torch.arange(12) % 5 > 1
    if dtype.is_floating_point:
        found = [0.0, -0.0, 0.5, -0.5, 1.5, -2.25, 3.0, 100.0, -7.0, 0.125, 20.0, -1.0]
        if special:
            large = torch.finfo(dtype).max
            found = [math.inf, -math.inf, math.nan, -0.0, 0.0, 1.0, -1.0, 8.0, 3.5, 9.0, large, 2.0]
        return torch.tensor(found, dtype=torch.float64).to(dtype)
    limits = torch.iinfo(dtype)
    counts = [0, 1, 2, 3, 5, 7, -1, -2, -3, 100, -100, 10]
    if special:
        counts = [limits.min, limits.max, 0, 1, -1, limits.min + 1, limits.max - 1, 2, 3, -2, 9, 7]
    return torch.tensor(counts).roll(5).to(dtype)


def nonzero(y: Any) -> Any:
    """Neither 0 nor -1, by which the least integer is not divisible."""
    if not isinstance(y, torch.Tensor) or y.is_floating_point():
        return y
    return torch.where((y == 0) | (y == -1 if y.dtype.is_signed else y == 0), 2, y).to(y.dtype)


Operator = Callable[[Any, Any], Any]
BINARY: dict[str, Operator] = {
    "add": lambda x, y: torch.add(x, y, alpha=2),
    "sub": torch.sub,
    "mul": torch.mul,
    "div": lambda x, y: torch.div(x, nonzero(y)),
    "floor_div": lambda x, y: torch.div(x, nonzero(y), rounding_mode="floor"),
    "trunc_div": lambda x, y: torch.div(x, nonzero(y), rounding_mode="trunc"),
    "remainder": lambda x, y: torch.remainder(x, nonzero(y)),
    "fmod": lambda x, y: torch.fmod(x, nonzero(y)),
    "eq": torch.eq,
    "lt": torch.lt,
    "ge": torch.ge,
    "maximum": torch.maximum,
    "fmin": torch.fmin,
    "atan2": torch.atan2,
    "copysign": torch.copysign,
    "heaviside": torch.heaviside,
    "xlogy": torch.xlogy,
    "logaddexp": torch.logaddexp,
    "hypot": torch.hypot,
    "ldexp": torch.ldexp,
    "bitwise_and": torch.bitwise_and,
    "bitwise_xor": torch.bitwise_xor,
    "left_shift": lambda x, y: x << y,
    "right_shift": lambda x, y: x >> y,
    "logical_and": torch.logical_and,
    "logical_xor": torch.logical_xor,
    "where": lambda x, y: torch.where(MASK, x, y),
    "clamp_min": lambda x, y: torch.clamp(x, min=y),
    "clamp": lambda x, y: torch.clamp(x, y, y),
    "lerp": torch.lerp,
    "addcmul": lambda x, y: torch.addcmul(x, y, y, value=2),
    "addcdiv": lambda x, y: torch.addcdiv(x, x, nonzero(y)),
    "cat": lambda x, y: torch.cat([x.reshape(-1), y.reshape(-1)]),
    "stack": lambda x, y: torch.stack([x, y]),
    "masked_fill": lambda x, y: x.masked_fill(MASK, y),
    "scatter": lambda x, y: x.scatter(0, torch.tensor([3, 4]), y),
    "added": lambda x, y: x.clone().add_(y),
    "multiplied": lambda x, y: x.clone().mul_(y),
}
OF_TYPES: dict[str, Operator] = {
    "to": lambda x, y: x.to(y.dtype),
    "sum": lambda x, y: x.sum(dtype=y.dtype),
    "prod": lambda x, y: x[:4].prod(dtype=y.dtype),
    "mean": lambda x, y: x.mean(dtype=y.dtype),
    "cumsum": lambda x, y: x.cumsum(0, dtype=y.dtype),
    "full_like": lambda x, y: torch.full_like(x, 3, dtype=y.dtype) + x,
    "arange": lambda x, y: torch.arange(1, 7, 2, dtype=y.dtype) + x[:3],
    "linspace": lambda x, y: torch.linspace(0, 4, 3, dtype=y.dtype) * x[:3],
    "index_put": lambda x, y: x.index_put((torch.tensor([1, 1]),), y[:1].to(x.dtype), True),
    "outer": lambda x, y: torch.outer(x[:3], y[:2]),
}
"""Of two tensors; without special values, whose casts are not defined."""
RANKS = ("xy", "x0", "0y", "xn", "ny")
"""An operand is a tensor, one of rank 0, or a number."""


@dataclass(frozen=True)
class Case:
    operator: Operator
    left: torch.dtype
    right: torch.dtype
    ranks: str = "xy"

    def __call__(self, inputs: dict[torch.dtype, torch.Tensor]) -> Any:
        operands = [
            NUMBERS[dtype] if rank == "n" else inputs[dtype][5 if rank == "0" else ...]
            for dtype, rank in zip((self.left, self.right), self.ranks, strict=True)
        ]
        return self.operator(*operands)

    def is_in_eager(self) -> bool:
        try:
            torch.export.export(Together([self]), inputs(special=False))
            return all(
                isinstance(self(dict(zip(TYPES, inputs(special), strict=True))), torch.Tensor)
                for special in (False, True)
            )
        except (RuntimeError, TypeError, NotImplementedError):
            return False


class Together(nn.Module):
    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self.cases = cases

    def forward(self, *inputs: torch.Tensor) -> Any:
        given = dict(zip(TYPES, inputs, strict=True))
        return tuple(case(given) for case in self.cases)


def inputs(special: bool) -> tuple[torch.Tensor, ...]:
    return tuple(values(dtype, special) for dtype in TYPES)


def check(cases: Sequence[Case], folder: Path, *, special: bool = True) -> None:
    model = Together(cases)
    result = lemurc.compile(
        model, inputs(False), targets="cpu", output=folder / "m.lemur", verify=False
    )
    wrong = []
    with lemurc.load(result.path) as session:
        for values_ in (inputs(False), inputs(True)) if special else (inputs(False),):
            for case, got, want in zip(cases, session(*values_), model(*values_), strict=True):
                name = f"{case.left} {case.right} {case.ranks}"
                arrays = to_array(torch.as_tensor(got)), to_array(want)
                compared = compare(name, *arrays, tolerance_of(str(arrays[1].dtype)))
                if not compared.ok:
                    wrong.append(f"{name}: {compared.detail or compared.error}")
    assert not wrong


@pytest.mark.long
@pytest.mark.parametrize("name", [*BINARY, *OF_TYPES])
def test_every_two_types(name: str, tmp_path: Path) -> None:
    pairs = enumerate(itertools.product(TYPES, TYPES))
    if name in BINARY:
        drawn = [Case(BINARY[name], *pair, RANKS[(k + k // 10) % 5]) for k, pair in pairs]
    else:
        drawn = [Case(OF_TYPES[name], *pair) for _, pair in pairs]
    cases = [case for case in drawn if case.is_in_eager()]
    assert cases
    for start in range(0, len(cases), PER_MODULE):
        check(cases[start : start + PER_MODULE], tmp_path, special=name in BINARY)


B, U8, I8, I16, I32, I64, F16, BF16, F32, F64 = TYPES
FOUND: dict[str, list[tuple[str, torch.dtype, torch.dtype, str]]] = {
    "what-becomes-bfloat16": [
        ("add", B, BF16, "0y"),
        ("add", I64, BF16, "0y"),
        ("sub", BF16, I64, "x0"),
        ("mul", BF16, F64, "x0"),
    ],
    "numbers-beside-bytes": [
        ("add", B, I32, "ny"),
        ("mul", F64, I8, "ny"),
        ("floor_div", I32, I8, "ny"),
        ("remainder", I8, I32, "xn"),
        ("clamp_min", U8, B, "xn"),
    ],
    "integers-of-two-widths": [
        ("mul", I8, I64, "x0"),
        ("remainder", I64, I8, "0y"),
        ("eq", B, I8, "0y"),
        ("lt", I8, B, "x0"),
        ("maximum", I8, I64, "x0"),
        ("left_shift", U8, I16, "x0"),
        ("right_shift", I64, I8, "0y"),
    ],
    "converted-first": [
        ("maximum", I8, U8, "0y"),
        ("floor_div", I8, U8, "0y"),
        ("right_shift", I8, U8, "0y"),
        ("fmod", I32, F16, "xn"),
        ("logical_and", U8, I16, "x0"),
        ("logical_xor", I64, I8, "0y"),
    ],
    "bytes-put-together": [
        ("cat", B, U8, "x0"),
        ("cat", U8, I8, "xy"),
        ("cat", BF16, U8, "0y"),
        ("stack", F32, U8, "xy"),
        ("left_shift", U8, I8, "xy"),
        ("ldexp", U8, I8, "xy"),
    ],
    "numbers-and-bits": [
        ("bitwise_and", I16, I64, "ny"),
        ("bitwise_xor", B, I16, "xn"),
        ("left_shift", I64, I32, "ny"),
        ("right_shift", I16, I32, "xn"),
        ("right_shift", U8, I32, "xn"),
        ("left_shift", I16, I32, "xn"),
    ],
    "bounds-of-other-types": [
        ("clamp_min", I8, BF16, "xn"),
        ("clamp", I64, F32, "xn"),
        ("clamp", B, F32, "xn"),
    ],
}


@pytest.mark.parametrize("kind", FOUND)
def test_found_wrong(kind: str, tmp_path: Path) -> None:
    check([Case(BINARY[name], *rest) for name, *rest in FOUND[kind]], tmp_path)  # type: ignore[arg-type]


def test_powers_of_truth(tmp_path: Path) -> None:
    power: Operator = torch.pow
    kinds = [(B, U8, "x0"), (B, I16, "xy"), (B, I16, "x0"), (I16, B, "ny"), (I64, B, "xy")]
    check([Case(power, *kind) for kind in kinds], tmp_path)
