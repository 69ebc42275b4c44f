"""Signs, powers of integers and functions torch-mlir or IREE lacks or gets wrong."""

import functools
import math
from typing import Any

import torch

from lemurc.frontend.operators.floating import Table, computed_in_float, float_result, polynomial


def signbit(x: torch.Tensor) -> torch.Tensor:
    """Whether the sign is minus, which for zero only division tells."""
    if not x.is_floating_point():
        return x < 0
    wide = x if x.dtype is torch.float64 else x.to(torch.float32)
    return (wide < 0.0) | ((wide == 0.0) & (1.0 / wide < 0.0))


def copysign(x: torch.Tensor, sign: Any) -> torch.Tensor:
    size = torch.abs(x if x.is_floating_point() else x.to(torch.get_default_dtype()))
    if isinstance(sign, torch.Tensor):
        made = torch.where(signbit(sign), -size, size)
        return made.to(float_result(x, sign))
    negative = math.copysign(1.0, sign) < 0
    return -size if negative else size


def isfinite(x: torch.Tensor) -> Any:
    if x.is_complex():
        return NotImplemented
    if not x.is_floating_point():
        return torch.ones_like(x, dtype=torch.bool)
    return torch.abs(x) < math.inf


_ATAN = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
"""Moshier's polynomial of (atan(t) / t - 1) / t^2 in t^2, for |t| < tan(pi / 8)."""
_ATAN_OVER = (
    -8.750608600031904122785e-1,
    -1.615753718733365076637e1,
    -7.500855792314704667340e1,
    -1.228866684490136173410e2,
    -6.485021904942025371773e1,
)
_ATAN_UNDER = (
    1.0,
    2.485846490142306297962e1,
    1.650270098316988542046e2,
    4.328810604912902668951e2,
    4.853903996359136964868e2,
    1.945506571482613964425e2,
)
"""The same in f64, as a quotient."""


@computed_in_float
def atan(x: torch.Tensor) -> torch.Tensor:
    """To an ulp or two, where IREE's is off by 40 in f32 and missing in f64."""
    size = torch.abs(x)
    large, middle = size > math.tan(3 * math.pi / 8), size > math.tan(math.pi / 8)
    t = torch.where(middle, (size - 1.0) / (size + 1.0), size)
    t = torch.where(large, -1.0 / torch.where(large, size, 1.0), t)
    t = torch.where(torch.isinf(size), 0.0, t)
    base = torch.where(middle, math.pi / 4, torch.zeros_like(x))
    base = torch.where(large, math.pi / 2, base)
    square = t * t
    if x.dtype is torch.float64:
        series = polynomial(square, _ATAN_OVER) / polynomial(square, _ATAN_UNDER)
    else:
        series = polynomial(square, _ATAN)
    angle = base + (t + t * square * series)
    return torch.where(x < 0, -angle, torch.where(x == 0, x, angle))


@computed_in_float
def asin(x: torch.Tensor) -> Any:
    return atan2(x, torch.sqrt((1.0 - x) * (1.0 + x)))


@computed_in_float
def acos(x: torch.Tensor) -> Any:
    """Vulkan's is undefined outside of -1..1: Mesa's lavapipe has -pi for -3."""
    return atan2(torch.sqrt((1.0 - x) * (1.0 + x)), x)


@computed_in_float
def log1p(x: torch.Tensor) -> Any:
    """IREE's in f64 is log(1 + x); by how much 1 + x is rounded, Kahan's quotient tells."""
    if x.dtype is not torch.float64:
        return NotImplemented
    sum = 1.0 + x
    part = torch.where((sum == 1.0) | torch.isinf(sum), 1.0, sum - 1.0)
    value = torch.log(sum)
    value = torch.where(torch.isinf(sum), value, value * (x / part))
    return torch.where(sum == 1.0, x, value)


@computed_in_float
def expm1(x: torch.Tensor) -> Any:
    if x.dtype is not torch.float64:
        return NotImplemented
    power = torch.exp(x)
    less = power - 1.0
    apart = (power == 1.0) | (less == -1.0) | torch.isinf(power)
    value = less * (x / torch.log(torch.where(apart, 2.0, power)))
    return torch.where(power == 1.0, x, torch.where(apart, less, value))


@computed_in_float
def log10(x: torch.Tensor) -> torch.Tensor:
    """A quotient: the product with 1 / log(10) misses powers of ten."""
    return torch.log(x) / math.log(10.0)


@computed_in_float
def log2(x: torch.Tensor) -> Any:
    if x.dtype is not torch.float64:
        return NotImplemented
    return torch.log(x) * (1 / math.log(2.0))


@computed_in_float
def atan2(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Signs of zeros and infinities as in eager."""
    tall, wide = torch.abs(y), torch.abs(x)
    large, small = torch.maximum(tall, wide), torch.minimum(tall, wide)
    ratio = small / torch.where(large == 0, 1.0, large)
    ratio = torch.where(torch.isinf(small), 1.0, ratio)
    angle = atan(ratio)
    angle = torch.where(tall > wide, math.pi / 2 - angle, angle)
    angle = torch.where(signbit(x), math.pi - angle, angle)
    return torch.where(signbit(y), -angle, angle)


@computed_in_float
def hypot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """By the ratio, so that squares do not overflow."""
    x, y = torch.abs(x), torch.abs(y)
    large, small = torch.maximum(x, y), torch.minimum(x, y)
    ratio = torch.where(large == 0, 0.0, small / large)
    length = large * torch.sqrt(1.0 + ratio * ratio)
    return torch.where(torch.isinf(x) | torch.isinf(y), math.inf, length)


def fmod(x: torch.Tensor, by: Any) -> torch.Tensor:
    """The remainder with the sign of x, as exact as that of `remainder`."""
    if isinstance(by, torch.Tensor):
        x, by = _promoted(x, by)
    dtype = torch.result_type(x, by)
    if not dtype.is_floating_point:
        return x - torch.div(x, by, rounding_mode="trunc") * by  # abs has no least number
    x = x.to(dtype)  # abs of the least integer is no larger than it
    size = torch.abs(by) if isinstance(by, torch.Tensor) else abs(by)
    rest = torch.remainder(torch.abs(x), size)
    return torch.copysign(rest, x)


@computed_in_float
def ldexp(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    return x * torch.pow(2.0, by)


def fmax(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The larger number; NaN only where both are."""
    x, y = _promoted(x, y)
    return torch.where(x != x, y, torch.where(y != y, x, torch.maximum(x, y)))


def fmin(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x, y = _promoted(x, y)
    return torch.where(x != x, y, torch.where(y != y, x, torch.minimum(x, y)))


def _promoted(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    dtype = torch.result_type(x, y)
    return x.to(dtype), y.to(dtype)


def power_of_integers(base: Any, exponent: Any) -> torch.Tensor:
    """By squaring, in the integers; where a result is a float, NotImplemented."""
    if isinstance(base, _SYMBOLIC) or isinstance(exponent, _SYMBOLIC):
        dtype = torch.result_type(base, exponent)
        return torch.pow(_tensor_of(base, dtype), _tensor_of(exponent, dtype))
    if isinstance(exponent, torch.Tensor):
        if not isinstance(base, torch.Tensor):
            dtype = torch.result_type(base, exponent)
            if base == 1:  # even to the power of NaN
                return torch.ones_like(exponent, dtype=dtype)
            if (
                dtype.is_floating_point and not 0 < base < math.inf
            ):  # torch-mlir takes its logarithm
                return torch.pow(torch.full_like(exponent, base, dtype=dtype), exponent)
        if exponent.is_floating_point():
            return NotImplemented
        if not isinstance(base, torch.Tensor):
            if not isinstance(base, int):
                return NotImplemented
            base = torch.full_like(exponent, base, dtype=torch.result_type(base, exponent))
    if base.dtype is torch.bool:
        base = base.to(torch.result_type(base, exponent))
    if base.is_floating_point() or base.is_complex() or base.dtype is torch.bool:
        return NotImplemented
    if not isinstance(exponent, torch.Tensor):
        return _constant_power(base, exponent)
    dtype = torch.result_type(base, exponent)
    base, exponent = torch.broadcast_tensors(base.to(dtype), exponent.to(dtype))
    square, result = base, torch.ones_like(base)
    for bit in range(8 * base.element_size() - 1):
        result = torch.where((exponent >> bit) & 1 == 1, result * square, result)
        square = square * square
    odd = torch.where(exponent & 1 == 1, base, torch.ones_like(base))
    inverse = torch.where(torch.abs(base) == 1, odd, torch.zeros_like(base))
    return torch.where(exponent < 0, inverse, result)


def remainder(x: Any, by: torch.Tensor) -> torch.Tensor:
    """Of a number."""
    return torch.remainder(_tensor_of(x, torch.result_type(x, by)), by)


def _tensor_of(number: Any, dtype: torch.dtype) -> torch.Tensor:
    if isinstance(number, torch.Tensor):
        return number
    return torch.scalar_tensor(number, dtype=dtype)


def _constant_power(base: torch.Tensor, exponent: Any) -> torch.Tensor:
    if not isinstance(exponent, int):
        return torch.pow(base.to(torch.get_default_dtype()), exponent)
    if exponent < 0:  # eager raises an error
        return NotImplemented
    square, result = base, torch.ones_like(base)
    while exponent:
        if exponent & 1:
            result = result * square
        exponent >>= 1
        square = square * square if exponent else square
    return result


def hardtanh(x: torch.Tensor, min_val: Any = -1.0, max_val: Any = 1.0) -> torch.Tensor:
    return torch.clamp(x, min_val, max_val)


def clamp(x: torch.Tensor, min: Any = None, max: Any = None) -> Any:
    """NaN stays NaN, which torch-mlir's lowering of clamp makes a bound."""
    bounds = [item for item in (min, max) if item is not None]
    if any(isinstance(item, torch.Tensor) for item in bounds):
        return _clamp_by_tensors(x, min, max)
    if not x.is_floating_point():
        common = functools.reduce(torch.promote_types, [torch.result_type(x, b) for b in bounds])
        if common is x.dtype and not any(isinstance(bound, bool) for bound in bounds):
            return NotImplemented
        low, high = (None if bound is None else _number(bound, common) for bound in (min, max))
        return torch.clamp(x.to(common), low, high)
    if min is not None:
        x = torch.where(x < min, min, x)
    return x if max is None else torch.where(x > max, max, x)


def trunc(x: torch.Tensor) -> torch.Tensor:
    """torch-mlir's is 1 too far from zero where the numbers are constants."""
    if not x.is_floating_point():
        return x.clone()
    return torch.where(x < 0, torch.ceil(x), torch.floor(x))


def neg(x: torch.Tensor) -> Any:
    """torch-mlir takes integers through f32."""
    if x.is_floating_point() or x.is_complex():
        return NotImplemented
    return torch.zeros_like(x) - x


def _number(number: Any, dtype: torch.dtype) -> Any:
    return number if isinstance(number, _SYMBOLIC) or dtype.is_floating_point else int(number)


def _clamp_by_tensors(x: torch.Tensor, min: Any, max: Any) -> Any:
    """A NaN of any operand wins."""
    if min is not None:
        x = torch.maximum(x, min)
    return x if max is None else torch.minimum(x, max)


def clamp_min(x: torch.Tensor, min: Any) -> Any:
    return clamp(x, min=min)


def clamp_max(x: torch.Tensor, max: Any) -> Any:
    return clamp(x, max=max)


def maximum(x: torch.Tensor, y: torch.Tensor) -> Any:
    """NaN where either is, which torch-mlir's lowering loses in x."""
    same = x.dtype is y.dtype
    x, y = _promoted(x, y)
    if not x.is_floating_point():
        return NotImplemented if same else torch.maximum(x, y)
    return torch.where((x != x) | (x > y), x, y)


def minimum(x: torch.Tensor, y: torch.Tensor) -> Any:
    same = x.dtype is y.dtype
    x, y = _promoted(x, y)
    if not x.is_floating_point():
        return NotImplemented if same else torch.minimum(x, y)
    return torch.where((x != x) | (x < y), x, y)


def gcd(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Euclid's algorithm, with as many steps as the worst case (Fibonacci) takes.

    The remainder has the sign of x, as in eager, where the least number of a type stays
    negative.
    """
    dtype = torch.result_type(x, y)
    x, y = torch.broadcast_tensors(torch.abs(x.to(dtype)), torch.abs(y.to(dtype)))
    for _ in range(math.ceil(8 * x.element_size() * 1.4404) + 1):
        done = y == 0
        rest = torch.fmod(x, torch.where(done, torch.ones_like(y), y))
        x, y = torch.where(done, x, y), torch.where(done, y, rest)
    return x


def lcm(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x, y = _promoted(x, y)
    divisor = gcd(x, y)
    nonzero = torch.where(divisor == 0, torch.ones_like(divisor), divisor)
    return torch.abs(torch.div(x, nonzero, rounding_mode="trunc") * y)


_SYMBOLIC = (torch.SymInt, torch.SymFloat)
_aten = torch.ops.aten
TABLE: Table = {
    _aten.acos.default: acos,
    _aten.asin.default: asin,
    _aten.atan.default: atan,
    _aten.atan2.default: atan2,
    _aten.clamp.Tensor: clamp,
    _aten.clamp.default: clamp,
    _aten.clamp_max.Tensor: clamp_max,
    _aten.clamp_max.default: clamp_max,
    _aten.clamp_min.Tensor: clamp_min,
    _aten.clamp_min.default: clamp_min,
    _aten.copysign.Scalar: copysign,
    _aten.copysign.Tensor: copysign,
    _aten.fmax.default: fmax,
    _aten.fmin.default: fmin,
    _aten.fmod.Scalar: fmod,
    _aten.fmod.Tensor: fmod,
    _aten.gcd.default: gcd,
    _aten.hardtanh.default: hardtanh,
    _aten.hypot.default: hypot,
    _aten.isfinite.default: isfinite,
    _aten.lcm.default: lcm,
    _aten.ldexp.Tensor: ldexp,
    _aten.maximum.default: maximum,
    _aten.minimum.default: minimum,
    _aten.log10.default: log10,
    _aten.log2.default: log2,
    _aten.expm1.default: expm1,
    _aten.log1p.default: log1p,
    _aten.neg.default: neg,
    _aten.pow.Scalar: power_of_integers,
    _aten.pow.Tensor_Scalar: power_of_integers,
    _aten.pow.Tensor_Tensor: power_of_integers,
    _aten.remainder.Scalar_Tensor: remainder,
    _aten.signbit.default: signbit,
    _aten.trunc.default: trunc,
}
