"""Files written by torch.save: a module, which is code, or a state dict, which is data."""

import pickle
from pathlib import Path
from typing import Any

import torch

from lemurc.errors import UnsupportedModelError, UsageError
from lemurc.frontend.formats import BUILD_HINT, damaged


def load_pickled(path: Path, *, trust: bool) -> torch.nn.Module:
    """The module; without `trust` nothing that could run code is opened."""
    value = read_data(path)
    if value is None:
        if not trust:
            raise UsageError(
                f"{str(path)!r} is a pickle: opening it runs whatever code its author put in",
                code="pickle-refused",
                hint="if you trust where it comes from, add --trust-pickle; better, save "
                "the model with torch.export.save",
            )
        value = _with_code(path)
    if isinstance(value, torch.nn.Module):
        return value
    raise UnsupportedModelError(
        f"{str(path)!r} holds weights or data ({type(value).__name__}), but no model",
        code="weights-only",
        hint=BUILD_HINT,
    )


def read_data(path: Path) -> Any:
    """Its content when that is tensors and plain containers, else None."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        return None
    except Exception as error:
        why = str(error).splitlines()[0] if str(error) else repr(error)
        raise damaged(str(path), why) from error


def _with_code(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=False)
    except (AttributeError, ImportError) as error:
        raise UsageError(
            f"{str(path)!r} needs Python classes that cannot be imported here: {error}",
            code="pickle-classes",
            hint="put the file that defines the model on PYTHONPATH",
        ) from error
