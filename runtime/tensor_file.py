"""Tensors by name in a safetensors file, which is there whole or not at all.

The package is imported when a checkpoint is written or read: calls need none of it.
"""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import ml_dtypes  # noqa: F401  (safetensors knows bfloat16 by NumPy's name for it)
import numpy as np

from lemurc.errors import ArtifactError, UsageError


def write_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """The file is on the disk when this returns, and an older one under its name stays until
    then. UsageError where it cannot be written."""
    from safetensors import SafetensorError, TensorSpec, serialize_file

    target = Path(path)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    dense = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    specs = {
        name: TensorSpec(
            dtype=array.dtype.name,
            shape=array.shape,
            data_ptr=array.ctypes.data,
            data_len=array.nbytes,
        )
        for name, array in dense.items()
    }
    try:
        serialize_file(specs, partial, dict(metadata))
        _sync(partial)
        os.replace(partial, target)
        _sync(target.absolute().parent)  # so that the new name outlives a loss of power, too
    except (OSError, SafetensorError) as error:
        raise UsageError(
            f"cannot write {target}: {getattr(error, 'strerror', None) or error}",
            code="unwritable-output",
            where=str(target),
            hint="name a file in a folder that is there, or make room; what was there is whole",
        ) from error
    finally:
        partial.unlink(missing_ok=True)


def read_tensors(
    path: str | os.PathLike[str],
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The tensors and the metadata; ArtifactError for what is no such file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, file.metadata() or {}
    except OSError as error:
        raise ArtifactError(
            f"cannot read {path}: {error}",
            code="checkpoint-unreadable",
            where=str(path),
            hint="give the file that save() wrote",
        ) from error
    except SafetensorError as error:
        raise ArtifactError(
            f"{path} is no checkpoint, or a damaged one: {error}",
            code="checkpoint-damaged",
            where=str(path),
            hint="resume from another; save() leaves only whole files",
        ) from error


def _sync(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
