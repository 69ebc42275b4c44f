"""Weights from one file for a model built by another: `weights.pt --model file.py:build`."""

from pathlib import Path
from typing import Any

import torch

from lemurc.errors import UsageError
from lemurc.frontend.formats import Format, detect


def load_state_dict(module: Any, path: Path) -> None:
    """Put the tensors of `path`, a state dict or safetensors file, into `module`.

    Names and shapes must agree exactly; nothing of a pickle but tensors is opened.
    """
    if not isinstance(module, torch.nn.Module):
        raise UsageError(
            f"the factory made a {type(module).__name__}, which cannot take weights",
            code="not-a-module",
            where="--model",
        )
    try:
        module.load_state_dict(_read(path))
    except RuntimeError as error:
        raise UsageError(
            f"the weights do not fit the model: {error}",
            code="weights-mismatch",
            where=str(path),
            hint="build the same model that the weights were saved from",
        ) from error


def _read(path: Path) -> dict[str, torch.Tensor]:
    if detect(path, str(path)) is Format.SAFETENSORS:
        from safetensors.torch import load_file

        tensors: dict[str, torch.Tensor] = load_file(path)
        return tensors
    from lemurc.frontend.pickled import read_data

    value = read_data(path)
    if not isinstance(value, dict):
        raise UsageError(
            f"{str(path)!r} holds no state dict that can be read without running code",
            code="weights-unreadable",
            hint="save it with torch.save(model.state_dict(), path)",
        )
    return value
