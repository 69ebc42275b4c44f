"""Decompositions that neither PyTorch nor torch-mlir has, in operators both lower.

Each has sizes that do not depend on values: the price is work that eager skips. The
operators of one topic are one file of `operators/`.
"""

from collections.abc import Callable
from fnmatch import fnmatch
from functools import cache
from typing import Any

from torch._decomp import decomposition_table
from torch._ops import OpOverload
from torch.export import default_decompositions

from lemurc.frontend.operators import (
    conversions,
    convolution,
    distances,
    drawing,
    elementary,
    experts,
    factorizations,
    hyperbolic,
    integers,
    interpolation,
    linear_systems,
    log_sums,
    pieces,
    pooling,
    quantizing,
    resampling,
    scattering,
    searching,
    special_functions,
    sums,
    trigonometric,
    truth,
)

_TOPICS = (
    conversions,
    convolution,
    distances,
    drawing,
    elementary,
    factorizations,
    hyperbolic,
    integers,
    interpolation,
    linear_systems,
    log_sums,
    pieces,
    pooling,
    quantizing,
    resampling,
    scattering,
    searching,
    special_functions,
    sums,
    trigonometric,
    truth,
)


def own_decompositions() -> dict[Any, Callable[..., Any]]:
    """By overload; a fresh dict."""
    table = experts.table() | _library()
    for topic in _TOPICS:
        table.update(topic.TABLE)
    return table


@cache
def _library() -> dict[Any, Callable[..., Any]]:
    """PyTorch's own, of operators that torch-mlir's table leaves whole but cannot lower."""
    known = dict(default_decompositions().items()) | decomposition_table
    names = ("addmv", "fft_*", "istft", "max_pool2d_with_indices_backward", "stft")
    return {
        overload: decompose
        for overload, decompose in known.items()
        if isinstance(overload, OpOverload)
        and any(fnmatch(_name(overload), name) for name in names)
    }


def _name(overload: Any) -> str:
    return str(overload._overloadpacket).removeprefix("aten.")
