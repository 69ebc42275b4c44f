"""Sine, cosine and tangent: Cody and Waite's reduction, then Moshier's polynomials.

IREE 3.13 reduces an f32 argument in one step, which costs a digit for each digit of it and
gives 242 for some sines beyond 1e8; of f64 it has none, and its `tan` is 5 times too large
near pi / 2. Here the parts of pi / 2 are so short that their multiples are exact. Past the
range where they are, results are NaN: digits that nobody computed are no answer.
"""

import math
from dataclasses import dataclass

import torch

from lemurc.frontend.operators.floating import Table, computed_in_float, polynomial


@dataclass(frozen=True)
class _Method:
    """`quarter` is pi / 2 in parts; `sine` and `cosine` are the polynomials in x^2, for
    |x| <= pi / 4, of what is left of sin(x) - x over x^3 and of cos(x) - 1 + x^2 / 2 over x^4."""

    quarter: tuple[float, ...]
    largest: float
    sine: tuple[float, ...]
    cosine: tuple[float, ...]


_METHODS = {
    torch.float32: _Method(
        quarter=(
            1.5625,
            0.008056640625,
            0.00023651123046875,
            3.159046173095703e-06,
            1.5832483768463135e-08,
            6.002665031701326e-11,
            7.389644451905042e-13,
            5.329070518200751e-15,
        ),
        largest=2.0**18 * math.pi / 2,
        sine=(-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1),
        cosine=(2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2),
    ),
    torch.float64: _Method(
        quarter=(1.570796251296997, 7.549789415861596e-08, 5.390302858158119e-15),
        largest=2.0**29 * math.pi / 2,
        sine=(
            1.58962301576546568060e-10,
            -2.50507477628578072866e-8,
            2.75573136213857245213e-6,
            -1.98412698295895385996e-4,
            8.33333333332211858878e-3,
            -1.66666666666666307295e-1,
        ),
        cosine=(
            -1.13585365213876817300e-11,
            2.08757008419747316778e-9,
            -2.75573141792967388112e-7,
            2.48015872888517045348e-5,
            -1.38888888888730564116e-3,
            4.16666666666665929218e-2,
        ),
    ),
}


def _sine(x: torch.Tensor, quarters: float) -> torch.Tensor:
    """sin(x + quarters pi / 2), to an ulp or two of 1."""
    method = _METHODS[x.dtype]
    turns = torch.round(x * (2 / math.pi))
    rest = x
    for part in method.quarter:
        rest = rest - turns * part
    square = rest * rest
    sine = rest + rest * square * polynomial(square, method.sine)
    cosine = 1.0 - 0.5 * square + square * square * polynomial(square, method.cosine)
    turns = turns + quarters
    quadrant = turns - 4.0 * torch.floor(turns * 0.25)
    odd = (quadrant == 1.0) | (quadrant == 3.0)
    value = torch.where(odd, cosine, sine)
    value = torch.where(quadrant >= 2.0, -value, value)
    return torch.where(torch.abs(x) <= method.largest, value, math.nan)


@computed_in_float
def sin(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x == 0, x, _sine(x, 0.0))


@computed_in_float
def cos(x: torch.Tensor) -> torch.Tensor:
    return _sine(x, 1.0)


@computed_in_float
def tan(x: torch.Tensor) -> torch.Tensor:
    return sin(x) / cos(x)


_aten = torch.ops.aten
TABLE: Table = {
    _aten.cos.default: cos,
    _aten.sin.default: sin,
    _aten.tan.default: tan,
}
