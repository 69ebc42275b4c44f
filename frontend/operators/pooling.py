"""Adaptive pooling into unequal windows and pooling with indices, by gathering windows."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from lemurc.frontend.operators.floating import Table

_Axis = tuple[torch.Tensor, torch.Tensor]
"""Of each window along one axis, [windows, longest]: the places it holds, and which of
them count; the others repeat a place of the tensor."""


def _adaptive_axis(length: Any, size: int) -> _Axis:
    """Of a `length` that is an int, or a SymInt where it is known only at run time."""
    if isinstance(length, int):
        bounds = [(at * length // size, -(-(at + 1) * length // size)) for at in range(size)]
        longest: Any = max(end - start for start, end in bounds)
    else:
        longest = length // size + 2
    at = torch.arange(size)[:, None]
    start = torch.div(at * length, size, rounding_mode="trunc")
    end = torch.div((at + 1) * length + (size - 1), size, rounding_mode="trunc")
    places = start + torch.arange(longest)
    return torch.minimum(places, end - 1), places < end


def _strided_axis(
    length: int, size: int, stride: int, padding: int, dilation: int, *, ceil: bool
) -> _Axis:
    reach = length + 2 * padding - dilation * (size - 1) - 1
    count = (-(-reach // stride) if ceil else reach // stride) + 1
    if ceil and (count - 1) * stride >= length + padding:
        count -= 1  # a window must start inside the tensor or its left padding
    places = torch.arange(count)[:, None] * stride + torch.arange(size) * dilation - padding
    return places.clamp(0, length - 1), (places >= 0) & (places < length)


def _windows(values: torch.Tensor, axes: list[_Axis]) -> torch.Tensor:
    """[..., *windows, k]: what each window holds."""
    first = values.dim() - len(axes)
    for axis, (places, _) in enumerate(axes):
        dim = first + axis
        values = values.index_select(dim, places.flatten())
        values = values.unflatten(dim, places.shape).movedim(dim + 1, -1)
    return values.flatten(-len(axes))


def _counted(axes: list[_Axis]) -> torch.Tensor:
    """[*windows, k]: which entries of `_windows` count."""
    all_inside = torch.ones((), dtype=torch.bool)
    for axis, (_, inside) in enumerate(axes):
        before, after = [1] * axis, [1] * (len(axes) - axis - 1)
        count, longest = inside.shape
        shape = [*before, count, *after, *before, longest, *after]
        all_inside = all_inside & inside.view(shape)
    return all_inside.flatten(len(axes))


def average(values: torch.Tensor, output_size: list[int]) -> Any:
    """Equal windows stay one operator, which devices may have a kernel for."""
    lengths = values.shape[-len(output_size) :]
    pairs = list(zip(lengths, output_size, strict=True))
    if any(isinstance(length, int) and 0 in (length, size) for length, size in pairs):
        return NotImplemented
    if all(isinstance(length, int) and not length % size for length, size in pairs):
        # torch-mlir has images in batches only, and of one dimension only one window
        if len(pairs) == 1:
            whole = _aten.adaptive_avg_pool2d(values.unsqueeze(-2), [1, *output_size])
            return whole.squeeze(-2)
        if len(pairs) == 2 and values.dim() == 3:
            return _aten.adaptive_avg_pool2d(values.unsqueeze(0), output_size).squeeze(0)
        return NotImplemented
    if all(size == 1 for size in output_size):
        return values.mean(list(range(-len(pairs), 0)), keepdim=True)
    axes = [_adaptive_axis(length, size) for length, size in pairs]
    inside = _counted(axes)
    total = torch.where(inside, _windows(values, axes), 0.0).sum(-1)
    return (total / inside.sum(-1)).to(values.dtype)


def maximum(values: torch.Tensor, output_size: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    lengths = values.shape[-len(output_size) :]
    pairs = zip(lengths, output_size, strict=True)
    return _largest(values, [_adaptive_axis(length, size) for length, size in pairs])


def max_pool_with_indices(
    values: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
    *,
    rank: int = 2,
) -> tuple[torch.Tensor, torch.Tensor]:
    def each(given: Sequence[int]) -> Sequence[int]:
        return given if len(given) == rank else [given[0]] * rank

    lengths = values.shape[-rank:]
    strides = each(stride or kernel_size)
    axes = [
        _strided_axis(*parameters, ceil=ceil_mode)
        for parameters in zip(
            lengths, each(kernel_size), strides, each(padding), each(dilation), strict=True
        )
    ]
    return _largest(values, axes)


def _max_pool3d_with_indices(*arguments: Any, **named: Any) -> Any:
    return max_pool_with_indices(*arguments, **named, rank=3)


def _largest(values: torch.Tensor, axes: list[_Axis]) -> tuple[torch.Tensor, torch.Tensor]:
    """Largest of each window, and where it stands in the plane."""
    spatial = values.shape[-len(axes) :]
    places = _windows(torch.arange(math.prod(spatial)).view(spatial), axes)
    held = _windows(values, axes)
    if values.is_floating_point():
        lowest: float = -torch.inf
    else:
        lowest = torch.iinfo(values.dtype).min
    held = torch.where(_counted(axes), held, torch.full_like(held, lowest))
    best = held.argmax(-1, keepdim=True)
    index = torch.gather(places.expand(held.shape), -1, best).squeeze(-1)
    return held.amax(-1), index


def _given_back(gradient: torch.Tensor, values: torch.Tensor, axes: list[_Axis]) -> torch.Tensor:
    """Each window's gradient, [..., *windows], added to every place it counts."""
    rank = len(axes)
    spatial = values.shape[-rank:]
    places = _windows(torch.arange(math.prod(spatial)).view(spatial), axes)
    shared = torch.where(_counted(axes), gradient.unsqueeze(-1), 0.0)
    places = places.expand(shared.shape).flatten(-rank - 1)
    flat = torch.zeros([*values.shape[:-rank], math.prod(spatial)], dtype=gradient.dtype)
    return flat.scatter_add(-1, places, shared.flatten(-rank - 1)).view(values.shape)


def average_backward(gradient: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    pairs = zip(values.shape[-2:], gradient.shape[-2:], strict=True)
    axes = [_adaptive_axis(length, size) for length, size in pairs]
    return _given_back(gradient / _counted(axes).sum(-1), values, axes)


def avg_pool2d_backward(
    gradient: torch.Tensor,
    values: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> torch.Tensor:
    def each(given: Sequence[int]) -> Sequence[int]:
        return given if len(given) == 2 else [given[0]] * 2

    kernel, pads = each(kernel_size), each(padding)
    parameters = list(
        zip(values.shape[-2:], kernel, each(stride or kernel_size), pads, strict=True)
    )
    axes = [_strided_axis(*given, 1, ceil=ceil_mode) for given in parameters]
    if divisor_override is not None:
        return _given_back(gradient / divisor_override, values, axes)
    if not count_include_pad:
        return _given_back(gradient / _counted(axes).sum(-1), values, axes)
    sizes = []
    for (length, size, step, pad), (places, _) in zip(parameters, axes, strict=True):
        start = torch.arange(places.shape[0]) * step - pad
        sizes.append(torch.minimum(start + size, torch.full_like(start, length + pad)) - start)
    return _given_back(gradient / (sizes[0][:, None] * sizes[1]), values, axes)


def _of_one_image(operator: OpOverload, rank: int) -> Callable[..., Any]:
    """Without a batch torch-mlir refuses some pooling, and crashes on the rest."""

    def pool(values: torch.Tensor, *arguments: Any) -> Any:
        if values.dim() != rank + 1:
            return NotImplemented
        return operator(values.unsqueeze(0), *arguments).squeeze(0)

    return pool


_aten = torch.ops.aten
TABLE: Table = {
    _aten._adaptive_avg_pool2d.default: average,
    _aten._adaptive_avg_pool3d.default: average,
    _aten._adaptive_avg_pool2d_backward.default: average_backward,
    _aten.avg_pool2d_backward.default: avg_pool2d_backward,
    _aten.adaptive_avg_pool1d.default: average,
    _aten.adaptive_avg_pool2d.default: average,
    _aten.adaptive_avg_pool3d.default: average,
    _aten.adaptive_max_pool1d.default: maximum,
    _aten.adaptive_max_pool2d.default: maximum,
    _aten.adaptive_max_pool3d.default: maximum,
    _aten.avg_pool1d.default: _of_one_image(_aten.avg_pool1d.default, 1),
    _aten.avg_pool2d.default: _of_one_image(_aten.avg_pool2d.default, 2),
    _aten.avg_pool3d.default: _of_one_image(_aten.avg_pool3d.default, 3),
    _aten.max_pool1d.default: _of_one_image(_aten.max_pool1d.default, 1),
    _aten.max_pool2d.default: _of_one_image(_aten.max_pool2d.default, 2),
    _aten.max_pool3d.default: _of_one_image(_aten.max_pool3d.default, 3),
    _aten.max_pool2d_with_indices.default: max_pool_with_indices,
    _aten.max_pool3d_with_indices.default: _max_pool3d_with_indices,
}
