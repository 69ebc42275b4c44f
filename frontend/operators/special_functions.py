"""Gamma, error and Bessel functions, in operators every target has."""

import math
from typing import Any

import torch

from lemurc.frontend.operators import chebyshev_series as series
from lemurc.frontend.operators.floating import (
    Table,
    chebyshev,
    computed_in_float,
    polynomial,
)

_EULER = 0.5772156649015329
_STIRLING = (
    -0.0295506535947712418,
    0.00641025641025641026,
    -0.00191752691752691753,
    0.000841750841750841751,
    -0.000595238095238095238,
    0.000793650793650793651,
    -0.00277777777777777778,
    0.0833333333333333333,
)
"""B(2k) / (2k (2k - 1)), k from 8 down to 1."""
_DIGAMMA = (
    -0.443259803921568627,
    0.0833333333333333333,
    -0.0210927960927960928,
    0.00757575757575757576,
    -0.00416666666666666667,
    0.00396825396825396825,
    -0.00833333333333333333,
    0.0833333333333333333,
)
"""B(2k) / 2k, k from 8 down to 1."""
_ERFINV_MIDDLE = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
_ERFINV_TAIL = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)
"""Giles, Approximating the erfinv function, 2010."""


def _zeta_minus_one(k: int) -> float:
    """The Riemann zeta function less its first term, by Euler and Maclaurin."""
    n = 40
    head = sum(j**-k for j in range(2, n))
    tail = n ** (1 - k) / (k - 1) + n**-k / 2 + k * n ** (-k - 1) / 12
    tail -= math.prod(range(k, k + 3)) * n ** (-k - 3) / 720
    tail += math.prod(range(k, k + 5)) * n ** (-k - 5) / 30240
    return float(head + tail)


_NEAR_TWO = tuple((-1.0) ** k * _zeta_minus_one(k) / k for k in range(32, 1, -1))
"""Taylor's series of log(gamma(2 + t)) without its linear term, divided by t^2."""


@computed_in_float
def lgamma(x: torch.Tensor) -> torch.Tensor:
    """Logarithm of |gamma(x)|, accurate at its zeros 1 and 2 too."""
    reflected = x < 0.5
    y = torch.where(reflected, 1.0 - x, x)
    product, near = torch.ones_like(y), y
    for _ in range(6):  # gamma(y) = (y - 1) gamma(y - 1), down to [1.5, 2.5]
        above = near > 2.5
        near = torch.where(above, near - 1.0, near)
        product = torch.where(above, product * near, product)
    low = near < 1.5
    t = torch.where(low, near - 1.0, near - 2.0)
    terms = _NEAR_TWO if x.dtype is torch.float64 else _NEAR_TWO[-16:]
    small = t * (1.0 - _EULER) + t * t * polynomial(t, terms)
    small = torch.where(low, small - torch.log1p(t), small) + torch.log(product)
    inverse = 1.0 / y
    large = (y - 0.5) * torch.log(y) - y + 0.5 * math.log(2 * math.pi)
    large = large + inverse * polynomial(inverse * inverse, _STIRLING)
    positive = torch.where(y <= 8.0, small, large)
    positive = torch.where(torch.isinf(y), math.inf, positive)
    fraction = torch.abs(x - torch.round(x))
    sine = torch.sin(math.pi * fraction)
    mirrored = math.log(math.pi) - torch.log(sine) - positive
    # near zero the sine is exact, and log(pi) - log(pi |x|) is the accurate sum
    mirrored = torch.where(fraction == 0, math.inf, mirrored)
    mirrored = torch.where(torch.isinf(x), math.inf, mirrored)
    return torch.where(reflected, mirrored, positive)


@computed_in_float
def digamma(x: torch.Tensor) -> torch.Tensor:
    """The derivative of lgamma."""
    reflected = x < 0
    y = torch.where(reflected, 1.0 - x, x)
    shift = torch.zeros_like(y)
    for _ in range(8):
        below = y < 8.0
        shift = torch.where(below, shift - 1.0 / y, shift)
        y = torch.where(below, y + 1.0, y)
    square = 1.0 / (y * y)
    positive = torch.log(y) - 0.5 / y - square * polynomial(square, _DIGAMMA) + shift
    positive = torch.where(torch.isinf(y), y, positive)
    fraction = x - torch.round(x)
    mirrored = positive - math.pi * torch.cos(math.pi * fraction) / torch.sin(math.pi * fraction)
    mirrored = torch.where(fraction == 0, math.nan, mirrored)
    at_zero = -1.0 / x  # the sign of zero decides
    return torch.where(x == 0, at_zero, torch.where(reflected, mirrored, positive))


def _scaled_erfc(z: torch.Tensor) -> torch.Tensor:
    """log(erfc(z) exp(z^2)) for z >= 0."""
    t = 2.0 / (2.0 + z)
    terms = series.ERFC if z.dtype is torch.float64 else series.ERFC[:16]
    return torch.log(t) + chebyshev(2.0 * t - 1.0, terms)


@computed_in_float
def erfc(x: torch.Tensor) -> torch.Tensor:
    """1 - erf(x) without the cancellation for large x."""
    z = torch.abs(x)
    tail = torch.exp(_scaled_erfc(z) - z * z)
    tail = torch.where(torch.isinf(z), 0.0, tail)
    return torch.where(x < 0, 2.0 - tail, tail)


_ERF = tuple((-1.0) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(20, -1, -1))
"""Taylor's series of erf(x) sqrt(pi) / (2 x) in x^2."""


@computed_in_float
def erf(x: torch.Tensor) -> Any:
    """In f64, which IREE lacks."""
    if x.dtype is not torch.float64:
        return NotImplemented
    z = torch.abs(x)
    near = torch.clamp(z, max=1.0)
    small = (2 / math.sqrt(math.pi)) * near * polynomial(near * near, _ERF)
    value = torch.where(z < 1.0, small, 1.0 - torch.where(torch.isinf(z), 0.0, _tail(z)))
    return torch.where(x < 0, -value, torch.where(x == 0, x, value))


def gelu(x: torch.Tensor, *, approximate: str = "none") -> Any:
    """In f64, where IREE has neither erf nor tanh."""
    if x.dtype is not torch.float64:
        return NotImplemented
    if approximate == "tanh":
        return x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))
    return 0.5 * x * (1.0 + erf(x * math.sqrt(0.5)))


@computed_in_float
def erfcx(x: torch.Tensor) -> torch.Tensor:
    """erfc(x) exp(x^2)."""
    scaled = torch.exp(_scaled_erfc(torch.abs(x)))
    scaled = torch.where(torch.isinf(x), 0.0, scaled)
    return torch.where(x < 0, 2.0 * torch.exp(x * x) - scaled, scaled)


@computed_in_float
def erfinv(x: torch.Tensor) -> torch.Tensor:
    """Giles' approximation, polished by Newton in f64."""
    w = -torch.log((1.0 - x) * (1.0 + x))
    middle = polynomial(w - 2.5, _ERFINV_MIDDLE)
    tail = polynomial(torch.sqrt(w) - 3.0, _ERFINV_TAIL)
    y = x * torch.where(w < 5.0, middle, tail)
    if x.dtype is torch.float64:
        for _ in range(3):
            error = torch.where(
                torch.abs(y) < 1.0, erf(y) - x, _sign(y) * (1.0 - torch.abs(x) - _tail(y))
            )
            y = y - error * (math.sqrt(math.pi) / 2) * torch.exp(y * y)
    y = torch.where(torch.abs(x) == 1.0, x * math.inf, y)
    return torch.where(torch.abs(x) > 1.0, math.nan, y)


def _sign(y: torch.Tensor) -> torch.Tensor:
    return torch.where(y < 0, -1.0, 1.0).to(y.dtype)


def _tail(y: torch.Tensor) -> torch.Tensor:
    z = torch.abs(y)
    return torch.exp(_scaled_erfc(z) - z * z)


def _bessel(
    x: torch.Tensor, near: tuple[float, ...], far: tuple[float, ...], *, odd: bool, scaled: bool
) -> torch.Tensor:
    z = torch.abs(x)
    small = chebyshev(torch.clamp(z, max=8.0) / 4.0 - 1.0, near)
    if odd:
        small = small * z
    bounded = torch.clamp(z, min=8.0)
    large = chebyshev(16.0 / bounded - 1.0, far) / torch.sqrt(bounded)
    value = torch.where(z <= 8.0, small, large)
    if not scaled:
        half = torch.exp(0.5 * z)  # exp(z) would overflow before the product does
        value = half * value * half
    return torch.where(x < 0, -value, value) if odd else value


@computed_in_float
def i0(x: torch.Tensor) -> torch.Tensor:
    return _bessel(x, series.I0_NEAR, series.I0_FAR, odd=False, scaled=False)


@computed_in_float
def i0e(x: torch.Tensor) -> torch.Tensor:
    return _bessel(x, series.I0_NEAR, series.I0_FAR, odd=False, scaled=True)


@computed_in_float
def i1(x: torch.Tensor) -> torch.Tensor:
    return _bessel(x, series.I1_NEAR, series.I1_FAR, odd=True, scaled=False)


@computed_in_float
def i1e(x: torch.Tensor) -> torch.Tensor:
    return _bessel(x, series.I1_NEAR, series.I1_FAR, odd=True, scaled=True)


TABLE: Table = {
    torch.ops.aten.digamma.default: digamma,
    torch.ops.aten.erf.default: erf,
    torch.ops.aten.erfc.default: erfc,
    torch.ops.aten.erfinv.default: erfinv,
    torch.ops.aten.gelu.default: gelu,
    torch.ops.aten.i0.default: i0,
    torch.ops.aten.lgamma.default: lgamma,
    torch.ops.aten.special_erfcx.default: erfcx,
    torch.ops.aten.special_i0e.default: i0e,
    torch.ops.aten.special_i1.default: i1,
    torch.ops.aten.special_i1e.default: i1e,
}
