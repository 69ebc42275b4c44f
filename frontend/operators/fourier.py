"""Discrete Fourier transforms as products with matrices of sines and cosines.

Up to 64 points, or a prime number of them, one product; beyond that Cooley and Tukey's
split of n = p q into transforms of p and of q points with a multiplication between. The
matrices are computed in f64 and rounded once. Complex numbers are pairs of reals.
"""

import math
from typing import Any

import numpy as np
import torch
from torch._subclasses.complex_tensor import ComplexTensor

from lemurc.errors import UnsupportedModelError

_DENSE = 64
_LARGEST = 8192
Pair = tuple[torch.Tensor, torch.Tensor]


def _angles(rows: int, columns: int, period: int) -> "np.ndarray[Any, Any]":
    """2 pi j k / period; the product is reduced as an integer, so it stays exact."""
    product = np.outer(np.arange(rows, dtype=np.int64), np.arange(columns, dtype=np.int64))
    return 2 * np.pi * (product % period).astype(np.float64) / period


def _constant(values: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values)).to(dtype)


def _transform(pair: Pair, sign: float) -> Pair:
    """Along the last dimension, without normalisation; `sign` is that of the exponent."""
    re, im = pair
    size = re.shape[-1]
    factor = _factor(size)
    if factor == size:
        return _dense(pair, sign)
    rest = size // factor
    re, im = (part.unflatten(-1, (factor, rest)).transpose(-1, -2) for part in (re, im))
    re, im = _transform((re, im), sign)  # [rest, factor]: over j1 for each j2
    angle = sign * _angles(rest, factor, size)
    cos, sin = _constant(np.cos(angle), re.dtype), _constant(np.sin(angle), re.dtype)
    re, im = re * cos - im * sin, re * sin + im * cos
    re, im = _transform((re.transpose(-1, -2), im.transpose(-1, -2)), sign)
    return tuple(part.transpose(-1, -2).flatten(-2) for part in (re, im))  # type: ignore[return-value]


def _factor(size: int) -> int:
    """The divisor to split off: the one closest to the square root, or all."""
    if size <= _DENSE:
        return size
    best = max(d for d in range(1, math.isqrt(size) + 1) if size % d == 0)
    if best > 1:
        return best
    if size > _LARGEST:
        raise UnsupportedModelError(
            f"a Fourier transform of {size} points is not supported, a large prime number",
            code="unsupported-ops",
            hint="pad the signal to a length with small factors, say a power of two",
        )
    return size


def _dense(pair: Pair, sign: float) -> Pair:
    re, im = pair
    size = re.shape[-1]
    angle = sign * _angles(size, size, size)
    cos, sin = np.cos(angle), np.sin(angle)
    both = _constant(np.block([[cos, sin], [-sin, cos]]), re.dtype)
    made = torch.matmul(torch.cat([re, im], -1), both)
    return made[..., :size], made[..., size:]


def _scale(count: int, normalization: int) -> float:
    return (1.0, 1.0 / math.sqrt(count), 1.0 / count)[normalization]


def _scaled(pair: Pair, count: int, normalization: int) -> ComplexTensor:
    scale = _scale(count, normalization)
    re, im = pair
    return ComplexTensor(re * scale, im * scale) if scale != 1.0 else ComplexTensor(re, im)


def _along(pair: Pair, dims: list[int], sign: float) -> Pair:
    for dim in dims:
        re, im = _transform((pair[0].movedim(dim, -1), pair[1].movedim(dim, -1)), sign)
        pair = re.movedim(-1, dim), im.movedim(-1, dim)
    return pair


def real_to_complex(
    values: torch.Tensor, dim: list[int], normalization: int, onesided: bool
) -> ComplexTensor:
    *others, last = dim
    count = math.prod(values.shape[axis] for axis in dim)
    moved = values.movedim(last, -1)
    size = moved.shape[-1]
    kept = size // 2 + 1 if onesided else size
    if _factor(size) == size:  # half of the matrix is all that is needed
        angle = _angles(size, kept, size)
        both = _constant(np.concatenate([np.cos(angle), -np.sin(angle)], 1), values.dtype)
        made = torch.matmul(moved, both)
        re, im = made[..., :kept], made[..., kept:]
    else:
        re, im = _transform((moved, torch.zeros_like(moved)), -1.0)
        re, im = re[..., :kept], im[..., :kept]
    pair = re.movedim(-1, last), im.movedim(-1, last)
    return _scaled(_along(pair, others, -1.0), count, normalization)


def complex_to_complex(
    values: ComplexTensor, dim: list[int], normalization: int, forward: bool
) -> ComplexTensor:
    count = math.prod(values.shape[axis] for axis in dim)
    pair = _along((values.re, values.im), dim, -1.0 if forward else 1.0)
    return _scaled(pair, count, normalization)


def complex_to_real(
    values: ComplexTensor, dim: list[int], normalization: int, last_dim_size: int
) -> torch.Tensor:
    """The inverse of `real_to_complex`, from half of the spectrum."""
    *others, last = dim
    size = last_dim_size
    count = size * math.prod(values.shape[axis] for axis in others)
    re, im = _along((values.re, values.im), others, 1.0)
    half = size // 2 + 1
    re, im = re.movedim(last, -1)[..., :half], im.movedim(last, -1)[..., :half]
    if _factor(size) == size:
        angle = _angles(half, size, size)
        weight = np.full((half, 1), 2.0)
        weight[0] = 1.0
        if size % 2 == 0:
            weight[-1] = 1.0
        both = np.concatenate([weight * np.cos(angle), -weight * np.sin(angle)], 0)
        made = torch.matmul(torch.cat([re, im], -1), _constant(both, re.dtype))
    else:
        mirrored = slice(1, half - 1 if size % 2 == 0 else half)
        # the spectrum of reals at 0 and at the middle is real, whatever is given there
        im = torch.cat([torch.zeros_like(im[..., :1]), im[..., 1:]], -1)
        if size % 2 == 0:
            im = torch.cat([im[..., :-1], torch.zeros_like(im[..., -1:])], -1)
        re = torch.cat([re, re[..., mirrored].flip(-1)], -1)
        im = torch.cat([im, -im[..., mirrored].flip(-1)], -1)
        made = _transform((re, im), 1.0)[0]
    return made.movedim(-1, last) * _scale(count, normalization)


def _real_to_complex(values: torch.Tensor, *, dim: list[int], onesided: bool) -> ComplexTensor:
    return real_to_complex(values, dim, 0, onesided)


def _complex_to_complex(values: ComplexTensor, *, dim: list[int], forward: bool) -> ComplexTensor:
    return complex_to_complex(values, dim, 0, forward)


def _complex_to_real(values: ComplexTensor, *, dim: list[int], last_dim_size: int) -> torch.Tensor:
    return complex_to_real(values, dim, 0, last_dim_size)


_aten, _prims = torch.ops.aten, torch.ops.prims
TABLE: dict[Any, Any] = {
    _aten._fft_c2c.default: complex_to_complex,
    _aten._fft_c2r.default: complex_to_real,
    _aten._fft_r2c.default: real_to_complex,
    _prims.fft_c2c.default: _complex_to_complex,
    _prims.fft_c2r.default: _complex_to_real,
    _prims.fft_r2c.default: _real_to_complex,
}
