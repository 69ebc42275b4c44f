"""Layouts in which a kernel wants a weight: `name@layout` is `name`, laid out anew."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
MARK = "@"
PANEL = 16


def panels16(weight: Array) -> Array:
    """[N, K] to [ceil(N / 16), K, 16], the last panel padded with zeros."""
    outputs, depth = weight.shape
    panels = -(-outputs // PANEL)
    padded = np.zeros((panels * PANEL, depth), weight.dtype)
    padded[:outputs] = weight
    return np.ascontiguousarray(padded.reshape(panels, PANEL, depth).transpose(0, 2, 1))


def panels16_transposed(weight: Array) -> Array:
    """The same from [K, N]."""
    return panels16(weight.T)


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "panels16": panels16,
    "panels16_transposed": panels16_transposed,
}


def laid_out(name: str, layout: str) -> str:
    return f"{name}{MARK}{layout}"


def in_layout(weights: Mapping[str, Array], name: str) -> Array:
    """The weight called `name`, which may ask for a layout."""
    if name in weights:
        return weights[name]
    source, _, layout = name.rpartition(MARK)
    return LAYOUTS[layout](weights[source])
