"""Parts of weights as weights of their own: `head.weight[0..512]`, `table[:,512..1024]`.

The range is of one dimension; those before it are whole. The bytes are those of the weight that
is cut: nothing but names is in the IR, and ranges of rows are ranges of the stored bytes.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

_SLICE = re.compile(r"^(?P<name>.*)\[(?P<before>(?::,)*)(?P<start>\d+)\.\.(?P<stop>\d+)\]$")


def slice_name(name: str, dim: int, start: int, stop: int) -> str:
    """What the range of `name` along dimension `dim` is called."""
    return f"{name}[{':,' * dim}{start}..{stop}]"


def find(weights: Mapping[str, np.ndarray[Any, Any]], name: str) -> np.ndarray[Any, Any]:
    """The weight called `name`, or the part of one that it names, as a view."""
    if name in weights or (match := _SLICE.match(name)) is None:
        return weights[name]
    dim = len(match["before"]) // 2
    whole = find(weights, match["name"])
    return whole[(slice(None),) * dim + (slice(int(match["start"]), int(match["stop"])),)]
