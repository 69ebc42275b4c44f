"""Layouts in which a kernel wants a weight: `name@layout` is `name`, laid out anew."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lemurc import weight_slices

Array = np.ndarray[Any, Any]
MARK = "@"
PANEL = 16
ROWS = 6


def panels16(weight: Array) -> Array:
    """[N, ...] to [ceil(N / 16), K, 16], K of what follows N, the last panel padded with zeros."""
    return _interleaved(weight.reshape(len(weight), -1), PANEL)


def rows6(weight: Array) -> Array:
    """The same in groups of 6."""
    return _interleaved(weight.reshape(len(weight), -1), ROWS)


def _interleaved(rows: Array, size: int) -> Array:
    """Groups of `size` rows, each with its columns side by side."""
    count, depth = rows.shape
    groups = -(-count // size)
    padded = np.zeros((groups * size, depth), rows.dtype)
    padded[:count] = rows
    return np.ascontiguousarray(padded.reshape(groups, size, depth).transpose(0, 2, 1))


def panels16_transposed(weight: Array) -> Array:
    """The same from [K, N]."""
    return panels16(weight.T)


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "panels16": panels16,
    "panels16_transposed": panels16_transposed,
    "rows6": rows6,
}


def laid_out(name: str, layout: str) -> str:
    return f"{name}{MARK}{layout}"


def in_layout(weights: Mapping[str, Array], name: str) -> Array:
    """The weight called `name`, which may ask for a range of one, and for a layout."""
    source, _, layout = name.rpartition(MARK)
    if name in weights or layout not in LAYOUTS:
        return weight_slices.find(weights, name)
    return LAYOUTS[layout](weight_slices.find(weights, source))
