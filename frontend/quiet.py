"""What PyTorch says to those who work on PyTorch, left out of a compilation."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGERS = ("torch.fx", "torch.export", "torch._export", "torch._dynamo")
_WARNINGS = (
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
    r"(?s)The tensor attributes? .*_flat_weights.* assigned during export",
)


@contextmanager
def quiet_torch() -> Iterator[None]:
    """Errors carry what matters; a failed export also prints its whole graph, twice."""
    from torch.export import _trace

    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        for message in _WARNINGS:
            warnings.filterwarnings("ignore", message)
        for logger in loggers:
            logger.setLevel(max(logger.getEffectiveLevel(), logging.CRITICAL))
        vars(_trace)["print"] = _say_nothing  # before the builtin of that name
        try:
            yield
        finally:
            del vars(_trace)["print"]
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def _say_nothing(*_: object, **__: object) -> None:
    pass
