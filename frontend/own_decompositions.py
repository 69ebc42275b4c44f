"""Decompositions that neither PyTorch nor torch-mlir has, in operators both lower.

Each has sizes that do not depend on values: the price is work that eager skips. The
operators of one topic are one file of `operators/`.
"""

from collections.abc import Callable
from typing import Any

from lemurc.frontend.operators import (
    distances,
    elementary,
    experts,
    pooling,
    resampling,
    scattering,
    searching,
    special_functions,
)

_TOPICS = (
    distances,
    elementary,
    pooling,
    resampling,
    scattering,
    searching,
    special_functions,
)


def own_decompositions() -> dict[Any, Callable[..., Any]]:
    """By overload; a fresh dict."""
    table = experts.table()
    for topic in _TOPICS:
        table.update(topic.TABLE)
    return table
