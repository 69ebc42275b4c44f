"""What PyTorch says to those who work on PyTorch, as debug output of ours.

Its log stays as the caller's program has it, but for tracebacks of errors that we report.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

log = logging.getLogger("lemurc.libraries")

_FAKE_TENSORS = logging.getLogger("torch._subclasses.fake_tensor")
_WARNINGS = (
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
    r"(?s)The tensor attributes? .*_flat_weights.* assigned during export",
)


@contextmanager
def quiet_torch() -> Iterator[None]:
    """A failed export prints its graph, however long, twice, and logs tracebacks."""
    from torch.export import _trace

    before = vars(_trace).get("print", print)
    with warnings.catch_warnings():
        for message in _WARNINGS:
            warnings.filterwarnings("ignore", message)
        vars(_trace)["print"] = _debug
        _FAKE_TENSORS.addFilter(_take)
        try:
            yield
        finally:
            _FAKE_TENSORS.removeFilter(_take)
            vars(_trace)["print"] = before


def _take(record: logging.LogRecord) -> bool:
    """Whether PyTorch's own handlers get it."""
    if record.levelno < logging.ERROR:
        return True
    log.debug("%s", record.getMessage(), exc_info=record.exc_info)
    return False


def _debug(*values: Any, **_: Any) -> None:
    log.debug("%s", " ".join(map(str, values)))
