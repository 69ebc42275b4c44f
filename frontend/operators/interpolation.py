"""Linear interpolation as weighted sums of neighbours.

PyTorch's own decomposition adds a share of the difference of two neighbours, which is NaN
where both are the same infinity, and finds the places in the image's type: in f16 there
are none beyond 2048.
"""

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import torch

from lemurc.frontend.operators.floating import Table

_Size = Any
"""An int or, where it is known only at run time, a SymInt."""


def _vector(
    image: torch.Tensor,
    output_size: Sequence[_Size] | None,
    align_corners: bool,
    scale_factors: Sequence[float] | None,
) -> torch.Tensor:
    """The overload that F.interpolate calls: a size or factors."""
    if output_size is None:
        assert scale_factors is not None
        output_size = [
            size * int(factor) if factor == int(factor) else math.floor(size * factor)
            for size, factor in zip(image.shape[2:], scale_factors, strict=True)
        ]
    return _resized(image, output_size, align_corners, scale_factors or ())


def _default(
    image: torch.Tensor,
    output_size: Sequence[_Size],
    align_corners: bool,
    *scales: float | None,
) -> torch.Tensor:
    return _resized(image, output_size, align_corners, scales)


def _resized(
    image: torch.Tensor,
    output_size: Sequence[_Size],
    align_corners: bool,
    scales: Sequence[float | None],
) -> Any:
    if image.dtype is torch.uint8:
        return _resized_bytes(image, output_size, align_corners, scales)
    if not image.is_floating_point():
        return NotImplemented
    wide = torch.float64 if image.dtype is torch.float64 else torch.float32
    rank = image.dim() - 2
    lows, highs, shares = [], [], []
    for axis, size in enumerate(output_size):
        length = image.shape[2 + axis]
        scale = scales[axis] if axis < len(scales) else None
        place = _places(length, size, align_corners, scale, wide)
        place = place.reshape(-1, *[1] * (rank - 1 - axis))
        low = place.to(torch.int64)
        lows.append(low)
        same = isinstance(length, int) and length == size
        highs.append(low if same else (low + 1).clamp(max=length - 1))
        shares.append((place - low).clamp(0.0, 1.0))
    corners = []
    for sides in product((lows, highs), repeat=rank):
        index = [None, None, *(side[axis] for axis, side in enumerate(sides))]
        corners.append(torch.ops.aten._unsafe_index(image, index).to(wide))
    for share in reversed(shares):
        pairs = zip(corners[::2], corners[1::2], strict=True)
        corners = [low * (1.0 - share) + high * share for low, high in pairs]
    return corners[0].to(image.dtype)


def _resized_bytes(
    image: torch.Tensor,
    output_size: Sequence[_Size],
    align_corners: bool,
    scales: Sequence[float | None],
) -> Any:
    """One axis after the other, from the last, with the fixed-point weights of eager."""
    values = image.to(torch.int32)
    for axis in reversed(range(len(output_size))):
        length, size = image.shape[2 + axis], output_size[axis]
        if not (isinstance(length, int) and isinstance(size, int)):
            return NotImplemented  # the largest weight, hence their precision, is unknown
        if length == size:
            continue
        scale = scales[axis] if axis < len(scales) else None
        place = _places(length, size, align_corners, scale, torch.float64)
        low = place.to(torch.int64)
        share = (place - low).clamp(0.0, 1.0)
        share = torch.where(low < length - 1, share, 0.0)
        bits = 14 if _has_whole_weight(length, size, align_corners, scale) else 15
        shape = [-1, *[1] * (len(output_size) - 1 - axis)]
        first, second = (
            torch.floor(weight * 2.0**bits + 0.5).to(torch.int32).reshape(shape)
            for weight in (1.0 - share, share)
        )
        near = torch.index_select(values, 2 + axis, low)
        far = torch.index_select(values, 2 + axis, (low + 1).clamp(max=length - 1))
        values = (near * first + far * second + (1 << (bits - 1))) >> bits
    return values.to(torch.uint8)


def _has_whole_weight(length: int, size: int, align_corners: bool, scale: float | None) -> bool:
    """Whether some weight is 1 in 16 bits, which leaves 14 for the fraction."""
    at = np.arange(size, dtype=np.float64)
    place = _place(at, length, size, align_corners, scale).clip(min=0.0)
    share = np.where(place < length - 1, place % 1.0, 0.0)
    return bool(np.maximum(share, 1.0 - share).max() >= 1.0 - 0.5 / 2**15)


def _places(
    length: _Size, size: _Size, align_corners: bool, scale: float | None, dtype: torch.dtype
) -> torch.Tensor:
    """[size]: where each of the resized lies among the `length` old ones."""
    at = torch.arange(size).to(dtype)
    return _place(at, length, size, align_corners, scale).clamp(min=0.0)


def _place(at: Any, length: _Size, size: _Size, align_corners: bool, scale: float | None) -> Any:
    known = isinstance(length, int) and isinstance(size, int)  # or else no number in Python
    if align_corners:
        if known:
            return at * ((length - 1) / (size - 1) if size > 1 else 0.0)
        return at * (length - 1) / (size - 1) if size > 1 else at * 0.0
    if scale is not None and scale > 0:
        return (at + 0.5) * (1.0 / scale) - 0.5
    return ((at + 0.5) * (length / size) if known else (at + 0.5) * length / size) - 0.5


_aten = torch.ops.aten
_LINEAR: tuple[Any, ...] = (
    _aten.upsample_linear1d,
    _aten.upsample_bilinear2d,
    _aten.upsample_trilinear3d,
)
_OVERLOADS: dict[str, Callable[..., torch.Tensor]] = {"vec": _vector, "default": _default}
TABLE: Table = {
    getattr(packet, overload): resize
    for packet in _LINEAR
    for overload, resize in _OVERLOADS.items()
}
