"""Functions of complex numbers as pairs, where `ComplexTensor` has none or loses digits."""

from typing import Any

import torch
from torch._subclasses.complex_tensor import ComplexTensor

from lemurc.frontend.operators import fourier

_REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def _pair(value: Any, dtype: torch.dtype | None = None) -> ComplexTensor:
    if isinstance(value, ComplexTensor):
        re, im = value.re, value.im
    else:
        re = value if isinstance(value, torch.Tensor) else torch.scalar_tensor(value)
        im = torch.zeros_like(re)
    return ComplexTensor(re.to(dtype), im.to(dtype)) if dtype else ComplexTensor(re, im)


def convert(value: Any, *, dtype: torch.dtype | None = None, **options: Any) -> Any:
    if dtype is None or dtype in _REAL:
        return _pair(value, _REAL[dtype] if dtype else None)
    return value.re.to(dtype)


def squeeze(value: Any, dims: Any) -> ComplexTensor:
    """What PyTorch's own decomposition of stft ends in."""
    return ComplexTensor(value.re.squeeze(tuple(dims)), value.im.squeeze(tuple(dims)))


def _split(value: Any) -> tuple[Any, Any]:
    """Real and imaginary part; None for that of a real."""
    if isinstance(value, ComplexTensor):
        return value.re, value.im
    if isinstance(value, complex):
        return value.real, value.imag
    return value, None


def multiply(left: Any, right: Any) -> ComplexTensor:
    (a, b), (c, d) = _split(left), _split(right)
    if b is None and d is None:
        return _pair(torch.mul(a, c))
    if d is None:
        return ComplexTensor(a * c, b * c)
    if b is None:
        return ComplexTensor(a * c, a * d)
    return ComplexTensor(a * c - b * d, a * d + b * c)


def add(left: Any, right: Any, *, alpha: Any = 1) -> ComplexTensor:
    if alpha != 1:
        right = right * alpha if isinstance(right, (int, float)) else multiply(right, alpha)
    (a, b), (c, d) = _split(left), _split(right)
    re = a + c
    zero = torch.zeros_like(re)
    return ComplexTensor(re, zero + (0.0 if b is None else b) + (0.0 if d is None else d))


def subtract(left: Any, right: Any, *, alpha: Any = 1) -> ComplexTensor:
    return add(left, right, alpha=-alpha)


def subtract_from(left: Any, right: Any, alpha: Any = 1) -> ComplexTensor:
    return add(right, left, alpha=-alpha)


def divide(left: Any, right: Any) -> ComplexTensor:
    """Scaled by the larger part of the divisor, whose square might overflow."""
    (a, b), (c, d) = _split(left), _split(right)
    if d is None:
        return ComplexTensor(a / c, torch.zeros_like(a / c) if b is None else b / c)
    if not isinstance(c, torch.Tensor):
        c, d = (torch.scalar_tensor(part, dtype=left.re.dtype) for part in (c, d))
    scale = torch.maximum(torch.abs(c), torch.abs(d))
    c, d = c / scale, d / scale
    size = (c * c + d * d) * scale
    if b is None:
        return ComplexTensor(a * c / size, -a * d / size)
    return ComplexTensor((a * c + b * d) / size, (b * c - a * d) / size)


def reciprocal(value: ComplexTensor) -> ComplexTensor:
    return divide(1.0, value)


def conjugate(value: ComplexTensor) -> ComplexTensor:
    return ComplexTensor(value.re, -value.im)


def same(value: Any) -> Any:
    return value


def full(size: list[int], fill: Any, *, dtype: torch.dtype, **options: Any) -> ComplexTensor:
    fill = complex(fill)
    real = _REAL[dtype]
    return ComplexTensor(
        torch.full(size, fill.real, dtype=real), torch.full(size, fill.imag, dtype=real)
    )


def full_like(value: Any, fill: Any, *, dtype: torch.dtype | None = None, **options: Any) -> Any:
    if dtype is not None and dtype not in _REAL:
        return torch.full_like(value.re, fill, dtype=dtype)
    dtype = dtype or (torch.complex64 if value.dtype is torch.complex64 else torch.complex128)
    return full(list(value.shape), fill, dtype=dtype)


def squareroot(value: ComplexTensor) -> ComplexTensor:
    """Without angles, which lose digits: the larger part first, the other from it."""
    re, im = value.re, value.im
    size = torch.hypot(re, im)
    large = torch.sqrt((size + torch.abs(re)) * 0.5)
    small = torch.where(large == 0, 0.0, im / (2.0 * torch.where(large == 0, 1.0, large)))
    up = re >= 0
    real = torch.where(up, large, torch.abs(small))
    imaginary = torch.where(up, small, torch.copysign(large, im))
    return ComplexTensor(real, imaginary)


def power(base: Any, exponent: Any) -> Any:
    """Whole powers by multiplication, others through the logarithm."""
    if isinstance(exponent, float) and exponent.is_integer():
        exponent = int(exponent)
    if isinstance(exponent, int) and abs(exponent) <= 64:
        result, square, count = None, base, abs(exponent)
        while count:
            if count & 1:
                result = square if result is None else result * square
            square = square * square if count > 1 else square
            count >>= 1
        if result is None:
            return full_like(base, 1.0)
        return torch.reciprocal(result) if exponent < 0 else result
    if isinstance(exponent, float) and exponent == 0.5:
        return squareroot(base)
    pair = _pair(base)
    return torch.exp(torch.log(pair) * _pair(exponent, pair.re.dtype))


def square(value: ComplexTensor) -> ComplexTensor:
    return multiply(value, value)


def product(value: ComplexTensor, *, dtype: torch.dtype | None = None) -> Any:
    return product_dim(torch.flatten(value), 0)  # type: ignore[arg-type]


def product_dim(
    value: ComplexTensor, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Any:
    """By halves."""
    pair: Any = value
    while pair.shape[dim] > 1:
        size = pair.shape[dim]
        half = size // 2
        first, second = pair.narrow(dim, 0, half), pair.narrow(dim, half, half)
        odd = [pair.narrow(dim, 2 * half, 1)] if size % 2 else []
        pair = torch.cat([first * second, *odd], dim)
    return pair if keepdim else pair.squeeze(dim)


def scalar_tensor(value: Any, *, dtype: torch.dtype, **options: Any) -> ComplexTensor:
    return full([], value, dtype=dtype)


def polar(size: torch.Tensor, angle: torch.Tensor) -> ComplexTensor:
    return ComplexTensor(size * torch.cos(angle), size * torch.sin(angle))


def _bilinear(operator: Any) -> Any:
    """A product of any kind: that of each pair of parts."""

    def made(left: Any, right: Any) -> ComplexTensor:
        (a, b), (c, d) = _split(left), _split(right)
        if d is None:
            return ComplexTensor(operator(a, c), operator(b, c))
        if b is None:
            return ComplexTensor(operator(a, c), operator(a, d))
        return ComplexTensor(operator(a, c) - operator(b, d), operator(a, d) + operator(b, c))

    return made


def vdot(left: Any, right: Any) -> Any:
    return _bilinear(torch.dot)(conjugate(left), right)


def linear(values: Any, weight: Any, bias: Any = None) -> Any:
    made = _bilinear(torch.nn.functional.linear)(values, weight)
    return made if bias is None else add(made, bias)


def sigmoid(value: ComplexTensor) -> Any:
    return torch.reciprocal(torch.exp(-value) + 1.0)


_aten = torch.ops.aten
TABLE: dict[Any, Any] = fourier.TABLE | {
    _aten._conj.default: conjugate,
    _aten._conj_physical.default: conjugate,
    _aten._to_copy.default: convert,
    torch.ops.prims.squeeze.default: squeeze,
    _aten.add.Scalar: add,
    _aten.add.Tensor: add,
    _aten.sub.Scalar: subtract,
    _aten.sub.Tensor: subtract,
    _aten.rsub.Scalar: subtract_from,
    _aten.rsub.Tensor: subtract_from,
    _aten.mul.Scalar: multiply,
    _aten.mul.Tensor: multiply,
    _aten.div.Scalar: divide,
    _aten.div.Tensor: divide,
    _aten.alias.default: same,
    _aten.conj_physical.default: conjugate,
    _aten.full.default: full,
    _aten.full_like.default: full_like,
    _aten.pow.Scalar: power,
    _aten.pow.Tensor_Scalar: power,
    _aten.pow.Tensor_Tensor: power,
    _aten.bmm.default: _bilinear(torch.bmm),
    _aten.dot.default: _bilinear(torch.dot),
    _aten.linear.default: linear,
    _aten.matmul.default: _bilinear(torch.matmul),
    _aten.mm.default: _bilinear(torch.mm),
    _aten.mv.default: _bilinear(torch.mv),
    _aten.polar.default: polar,
    _aten.scalar_tensor.default: scalar_tensor,
    _aten.vdot.default: vdot,
    _aten.prod.default: product,
    _aten.prod.dim_int: product_dim,
    _aten.reciprocal.default: reciprocal,
    _aten.resolve_conj.default: same,
    _aten.resolve_neg.default: same,
    _aten.sigmoid.default: sigmoid,
    _aten.sqrt.default: squareroot,
    _aten.square.default: square,
    torch.ops.prims.convert_element_type.default: lambda value, dtype: convert(value, dtype=dtype),
}
