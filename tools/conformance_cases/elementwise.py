"""Arithmetic and functions of single numbers, special values among them."""

import math

import torch

from lemurc.tools.conformance_cases.case import Expression, draw

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
SHORT = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
}
INFINITY, NAN = float("inf"), float("nan")
SPECIAL = (0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY, NAN, 2.5, -2.5, 65504.0, 1e-3, -7.0)


def special(dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor(SPECIAL, dtype=dtype)


def pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Every special value with every other."""
    values = special(dtype)
    return values.repeat_interleave(len(values)), values.repeat(len(values))


def _arithmetic(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    return [x + y, x - y, x * y, x / y]


def _signs(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    return [-x, x.abs(), torch.copysign(x, y), torch.where(x > y, x, y)]


def _order(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    return [x < y, x <= y, x == y, x != y, torch.isnan(x), torch.isinf(y)]


def _extremes(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    return [torch.maximum(x, y), torch.minimum(x, y), x.clamp(-2.0, 2.0)]


def far_apart(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers of most magnitudes with each other, their quotients finite: eager's are NaN else."""
    limits = torch.finfo(dtype)
    low, high = math.log10(limits.tiny), math.log10(limits.max)
    sizes = torch.logspace(low * 0.45, high * 0.45, 14, dtype=torch.float64).to(dtype)
    values = torch.cat([sizes, -sizes * 3])
    return values.repeat_interleave(len(values)), values.repeat(len(values))


def _remainders(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    return [torch.fmod(x, y), torch.remainder(x, y)]


def _rounding(x: torch.Tensor) -> list[torch.Tensor]:
    return [x.floor(), x.ceil(), x.round(), x.trunc()]


def _functions(x: torch.Tensor) -> list[torch.Tensor]:
    positive = x.abs() + 0.5
    return [
        x.exp(), x.sin(), x.cos(), x.tanh(), x.sigmoid(), torch.erf(x),
        positive.log(), positive.sqrt(), positive.rsqrt(), positive.pow(1.5),
    ]  # fmt: skip


def _activations(x: torch.Tensor) -> list[torch.Tensor]:
    nn = torch.nn.functional
    return [nn.relu(x), nn.gelu(x), nn.silu(x), nn.leaky_relu(x), nn.softplus(x)]


HALVES = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49, -0.51, 7.0, -0.0])

EXPRESSIONS = (
    *(
        Expression(f"arithmetic_{SHORT[dtype]}", _arithmetic, (pairs(dtype),), bits=True)
        for dtype in FLOATS
    ),
    *(
        Expression(f"comparisons_{SHORT[dtype]}", _order, (pairs(dtype),), bits=True)
        for dtype in FLOATS
    ),
    *(
        Expression(f"extremes_{SHORT[dtype]}", _extremes, (pairs(dtype),))
        for dtype in FLOATS
    ),
    *(
        Expression(f"remainders_{SHORT[dtype]}", _remainders, (pairs(dtype),), bits=True)
        for dtype in FLOATS
    ),
    *(
        Expression(
            f"remainders_far_apart_{SHORT[dtype]}", _remainders, (far_apart(dtype),), bits=True
        )
        for dtype in FLOATS
    ),
    *(
        Expression(
            f"floor_divisions_{SHORT[dtype]}", torch.floor_divide, (pairs(dtype),), bits=True
        )
        for dtype in FLOATS[:2]
    ),
    Expression("signs_f32", _signs, (pairs(torch.float32),), bits=True),
    Expression("rounding_f32", _rounding, ((HALVES,), (special(torch.float32)[:10],)), bits=True),
    *(
        Expression(
            f"functions_{SHORT[dtype]}",
            _functions,
            ((draw(3, 17, dtype=dtype),), (3 * draw(3, 17, seed=1, dtype=dtype),)),
            needs=("f64-functions",) if dtype == torch.float64 else (),
        )
        for dtype in FLOATS
    ),
    Expression(
        "functions_of_special_values",
        lambda x: [x.exp(), x.tanh(), x.sigmoid(), x.acos(), x.asin()],
        ((special(torch.float32),),),
    ),
    Expression("activations", _activations, ((draw(5, 9),), (20 * draw(5, 9, seed=1),))),
    Expression(
        "casts_between_floats",
        lambda x: [x.to(dtype) for dtype in FLOATS],
        ((torch.cat([special(torch.float32), draw(24)]),),),
    ),
    Expression(
        "casts_to_integers",
        lambda x: [x.to(torch.int32), x.to(torch.int8), x > 0],
        ((draw(40) * 20,),),
    ),
)  # fmt: skip
