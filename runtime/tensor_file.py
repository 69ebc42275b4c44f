"""Tensors by name in a file, in the format of safetensors: PyTorch's users can read it.

8 bytes: length of the header | JSON: dtype, shape and place of each tensor | their bytes
"""

import json
import os
import secrets
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  (makes NumPy know bfloat16 and float8 by name)
import numpy as np

from lemurc.errors import ArtifactError, UsageError

_NAMES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
    "complex64": "C64",
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_METADATA = "__metadata__"
_ALIGNMENT = 8


def write_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """The file is there whole or not at all, and on the disk when this returns: an older one
    under its name stays until then. UsageError where it cannot be written."""
    target = Path(path)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    header: dict[str, Any] = {_METADATA: dict(metadata)}
    arrays = []
    place = 0
    for name, array in tensors.items():
        array = np.asarray(array, order="C")
        end = place + array.nbytes
        header[name] = {
            "dtype": _NAMES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [place, end],
        }
        arrays.append(array)
        place = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    try:
        with open(partial, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for array in arrays:
                file.write(array.reshape(-1).view(np.uint8).data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
        _sync_folder(target.absolute().parent)
    except OSError as error:
        raise UsageError(
            f"cannot write {target}: {error.strerror or error}",
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
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ArtifactError(
            f"cannot read {path}: {error.strerror or error}",
            code="checkpoint-unreadable",
            where=str(path),
            hint="give the file that save() wrote",
        ) from error
    try:
        (length,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + length])
        metadata = header.pop(_METADATA, {})
        body = memoryview(data)[8 + length :]
        tensors = {name: _tensor(body, described) for name, described in header.items()}
        end = max((described["data_offsets"][1] for described in header.values()), default=0)
        if end != len(body):
            raise ValueError("the file is cut short or too long")
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArtifactError(
            f"{path} is no checkpoint, or a damaged one",
            code="checkpoint-damaged",
            where=str(path),
            hint="resume from another; save() leaves only whole files",
        ) from error
    return tensors, metadata


def _tensor(body: memoryview, described: Mapping[str, Any]) -> np.ndarray:
    begin, end = described["data_offsets"]
    dtype = np.dtype(_DTYPES[described["dtype"]])
    return np.frombuffer(body[begin:end], np.uint8).view(dtype).reshape(described["shape"])


def _sync_folder(folder: Path) -> None:
    """So that the new name outlives a loss of power, too."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
