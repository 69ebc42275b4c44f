"""What operations of each kind take in a stage of many, relative to one by one.

IREE fuses across operations, so that some cost next to nothing in company; others find the
caches taken by their neighbours. A stage of n operations says only what all of its took; kinds
are told apart over many stages, by ridge regression (Hoerl and Kennard, 1970):

    seconds = sum over kinds of alone * (1 + (1 - 1/n) * (common + own)),   together = 1 + both

with the relative errors of stages weighed against `common` and each kind's `own`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from lemurc.cost_model import company

_RIDGE = 0.03
"""Variance of the noise over that expected of effects: 5% against 30%, squared."""

_LEAST, _MOST = 0.05, 2.0
"""What is outside was disturbed."""


@dataclass(frozen=True)
class Group:
    """A measured stage: `seconds` without the call, of `count` operations, which took `alone`
    seconds one by one, by kind."""

    seconds: float
    count: int
    alone: dict[str, float]


def together(groups: Iterable[Group]) -> dict[str, float]:
    """By kind, and for all other kinds as "*"."""
    measured = [group for group in groups if group.count > 1]
    if not measured:
        return {}
    kinds = sorted({kind for group in measured for kind in group.alone})
    effects = np.zeros((len(measured), 1 + len(kinds)))
    missing = np.zeros(len(measured))
    for row, group in enumerate(measured):
        share = company(group.count) / group.seconds
        for kind, seconds in group.alone.items():
            effects[row, 1 + kinds.index(kind)] += share * seconds
        effects[row, 0] = effects[row, 1:].sum()
        missing[row] = 1 - sum(group.alone.values()) / group.seconds
    ridge = _RIDGE * np.eye(effects.shape[1])
    common, *own = np.linalg.solve(effects.T @ effects + ridge, effects.T @ missing)
    found = {"*": common} | {k: common + o for k, o in zip(kinds, own, strict=True)}
    return {kind: float(min(max(1 + x, _LEAST), _MOST)) for kind, x in found.items()}
