"""Keep what PyTorch and transformers say to their own developers off a user's terminal.

For the process of the command line alone: a program that calls lemurc has its own ideas
about the logs of the libraries it uses. `--debug` shows everything.
"""

import logging
import os

log = logging.getLogger("lemurc.libraries")

_TORCH_SETTINGS = ("TORCH_LOGS", "TORCH_TRACE", "TORCH_COMPILE_DEBUG")


def before_import() -> None:
    """What transformers reads when it is imported; a setting of the user's stays."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def after_import() -> None:
    """PyTorch's log becomes debug output of ours, unless the user asked PyTorch for it."""
    from torch._logging._internal import log_registry

    if any(name in os.environ for name in _TORCH_SETTINGS):
        return
    for name in log_registry.get_log_qnames():  # each has a handler and does not propagate
        logging.getLogger(name).handlers[:] = [_ToDebug()]


class _ToDebug(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        log.debug("%s: %s", record.name, record.getMessage())
