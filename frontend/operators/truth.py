"""Choices, closeness, `any` and `all` of the types that torch-mlir refuses or crashes on."""

from typing import Any

import torch

from lemurc.frontend.operators.floating import Table


def isclose(
    x: torch.Tensor,
    y: torch.Tensor,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Any:
    """Eager compares integers as floats of the default type."""
    if x.is_complex():
        return NotImplemented
    close = x == y
    if equal_nan and x.is_floating_point():
        close = close | ((x != x) & (y != y))
    if rtol == 0 and atol == 0:
        return close
    if not x.is_floating_point():
        x, y = x.to(torch.get_default_dtype()), y.to(torch.get_default_dtype())
    error = torch.abs(x - y)
    return close | (torch.isfinite(error) & (error <= atol + torch.abs(rtol * y)))


def any_of(values: torch.Tensor, *dims: Any, **named: Any) -> Any:
    """Of bytes, whose result is a byte."""
    if values.dtype is not torch.uint8:
        return NotImplemented
    return torch.any(values != 0, *dims, **named).to(torch.uint8)


def all_of(values: torch.Tensor, *dims: Any, **named: Any) -> Any:
    if values.dtype is not torch.uint8:
        return NotImplemented
    return torch.all(values != 0, *dims, **named).to(torch.uint8)


def where(condition: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> Any:
    """Between two types, one of which torch-mlir would have to convert."""
    if x.dtype is y.dtype:
        return NotImplemented
    common = torch.result_type(x, y)
    return torch.where(condition, x.to(common), y.to(common))


def heaviside(x: torch.Tensor, at_zero: torch.Tensor) -> torch.Tensor:
    return torch.where(x == 0, at_zero, (x > 0).to(at_zero.dtype))


_aten = torch.ops.aten
TABLE: Table = {
    _aten.all.default: all_of,
    _aten.all.dim: all_of,
    _aten.any.default: any_of,
    _aten.any.dim: any_of,
    _aten.heaviside.default: heaviside,
    _aten.isclose.default: isclose,
    _aten.where.self: where,
}
