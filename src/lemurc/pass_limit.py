"""Leaving optional steps out, to find the one that makes a program wrong.

Optional steps count from 1 in the order they run: passes of the pipelines, then the choice
of kernels, then IREE's tuning flags. Under a limit of n only the first n of them run.
"""

from collections.abc import Iterable

from lemurc.passes.base import Pass
from lemurc.passes.textual import Step

SELECT_KERNELS, TUNING = "select-kernels", "tuning flags of iree-compile"


def optional_steps(opt_level: int) -> list[str]:
    """The names of all optional steps of a compilation from PyTorch, in order."""
    from lemurc.passes import pipelines

    passes = [*pipelines.lower_torch(), *pipelines.optimize(opt_level)]
    return [*(step.name for step in passes if _is_optional(step)), SELECT_KERNELS, TUNING]  # type: ignore[union-attr]


def allows(limit: int | None, step: str, opt_level: int) -> bool:
    """Whether `step`, one of the last two, runs under `limit`."""
    return limit is None or optional_steps(opt_level).index(step) < limit


def within(limit: int | None, steps: Iterable[Step], already: int = 0) -> list[Step]:
    """`steps` without the optional ones past `limit`, of which `already` many have run."""
    if limit is None:
        return list(steps)
    kept: list[Step] = []
    for step in steps:
        already += _is_optional(step)
        if not _is_optional(step) or already <= limit:
            kept.append(step)
    return kept


def count_optional(steps: Iterable[Step]) -> int:
    return sum(_is_optional(step) for step in steps)


def _is_optional(step: Step) -> bool:
    return isinstance(step, Pass) and step.optional
