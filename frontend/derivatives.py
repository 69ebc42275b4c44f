"""Can the loss be differentiated? Asked of eager, once, before anything is compiled.

Where a backward fails, anomaly mode warns with the Python lines of its forward.
"""

import re
import warnings
from collections.abc import Iterable
from typing import Any

import torch

from lemurc.errors import UnsupportedModelError
from lemurc.frontend.user_code import is_library, raising_line, said

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_HINT = (
    "compute it from differentiable operators, detach() what needs no gradient, or register one "
    "with torch.library.register_autograd"
)


def check_derivatives(objective: torch.nn.Module, batch: Any) -> None:
    """Raise UnsupportedModelError for what cannot be trained; changes buffers of `objective`."""
    wanted = [p for p in objective.parameters() if p.requires_grad]
    with warnings.catch_warnings(record=True) as warned, torch.random.fork_rng(devices=()):
        warnings.simplefilter("always")
        with torch.enable_grad(), torch.autograd.set_detect_anomaly(True, check_nan=False):
            loss = _forward(objective, batch)
            _check_loss(loss, wanted)
            try:
                found = torch.autograd.grad(loss, wanted, allow_unused=True)
            except (RuntimeError, NotImplementedError) as error:
                raise _no_derivative(error, _user_line(str(w.message) for w in warned)) from error
    if all(gradient is None for gradient in found):
        raise _independent()


def _forward(objective: torch.nn.Module, batch: Any) -> Any:
    try:
        return objective(batch)
    except Exception as error:
        raise UnsupportedModelError(
            f"the model and its loss fail on the batch in eager mode: {said(error)}",
            code="eager-failed",
            where=raising_line(error),
            hint="a batch is (inputs, targets), or the model's inputs where it returns its loss",
        ) from error


def _check_loss(loss: Any, wanted: list[torch.nn.Parameter]) -> None:
    if not isinstance(loss, torch.Tensor):
        raise _not_scalar(f"a {type(loss).__name__}")
    if loss.ndim != 0:
        raise _not_scalar(f"a tensor of shape {list(loss.shape)}")
    if not loss.is_floating_point():
        raise _not_scalar(f"of type {str(loss.dtype).removeprefix('torch.')}")
    if not wanted or not loss.requires_grad:
        raise _independent()


def _not_scalar(what: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"the loss is {what}, not one floating-point number",
        code="loss-not-scalar",
        hint="reduce it, for example with .mean()",
    )


def _independent() -> UnsupportedModelError:
    return UnsupportedModelError(
        "the loss depends on no parameter that requires a gradient",
        code="loss-without-parameters",
        hint="look for detach(), torch.no_grad(), argmax or integers between parameters and loss, "
        "and for requires_grad=False",
    )


def _no_derivative(error: Exception, line: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"the loss cannot be differentiated: {said(error, 1).partition(': ')[2]}",
        code="no-derivative",
        where=line or raising_line(error),
        hint=_HINT,
    )


def _user_line(warned: Iterable[str]) -> str:
    """The innermost line of the user's own among those of the forward."""
    frames = [frame for text in warned for frame in _FRAME.findall(text)]
    own = [frame for frame in frames if not is_library(frame[0])]
    return ":".join(own[-1]) if own else ""
