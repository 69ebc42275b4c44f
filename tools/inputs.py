"""Inputs of a call as people write them on the command line.

    2x16xi64        an array of that shape and dtype, drawn from a fixed seed
    @tokens.npy     a NumPy file
    @all.npz        several arrays by name
    mask=@m.npy     by name; unnamed ones fill the remaining inputs in call order

Drawn floats are standard normal. Drawn integers are 0 or 1, which are valid token ids,
masks and indices nearly everywhere.
"""

import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from lemurc.errors import InputError, UsageError
from lemurc.manifest import DTYPES, TensorSpec

Array = NDArray[Any]

SHORT_DTYPES = DTYPES | {f"ui{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)}


def read(strings: Sequence[str], signature: Sequence[TensorSpec]) -> list[Array]:
    """One array per input of `signature`, from the strings of the command line."""
    generator = np.random.default_rng(0)
    named: dict[str, Array] = {}
    unnamed: list[Array] = []
    for string in strings:
        name, value = _split(string)
        if value.endswith(".npz"):
            named.update(_load(value, string))
        elif name:
            named[name] = _array(value, string, generator)
        else:
            unnamed.append(_array(value, string, generator))
    return _assign(named, unnamed, [spec.name for spec in signature])


def draw_like(signature: Sequence[TensorSpec]) -> list[Array]:
    """Arrays a call would accept; a symbolic dimension gets its smallest size."""
    generator = np.random.default_rng(0)
    sizes = [[d if isinstance(d, int) else d.min for d in spec.shape] for spec in signature]
    return [
        _draw(shape, spec.dtype, generator) for shape, spec in zip(sizes, signature, strict=True)
    ]


def dtype_of(name: str) -> np.dtype[Any]:
    """NumPy's dtype for a name of NumPy, ml_dtypes or MLIR; TypeError when there is none."""
    name = SHORT_DTYPES.get(name, name)
    return np.dtype(getattr(ml_dtypes, name, name))


def _split(string: str) -> tuple[str, str]:
    name, equals, value = string.partition("=")
    return (name, value) if equals and not string.startswith("@") else ("", string)


def _array(value: str, string: str, generator: np.random.Generator) -> Array:
    if value.startswith("@"):
        loaded = _load(value, string)
        return loaded[""]
    match = re.fullmatch(r"((?:\d+x)*)([a-z]\w*)", value)
    if match is None:
        raise _bad(string, "it is neither SHAPExDTYPE, like 2x16xi64, nor @file.npy")
    try:
        dtype_of(match[2])
    except TypeError:
        raise _bad(string, f"{match[2]!r} is not a dtype; {', '.join(SHORT_DTYPES)} are") from None
    return _draw([int(size) for size in match[1].split("x")[:-1]], match[2], generator)


def _draw(shape: Sequence[int], dtype: str, generator: np.random.Generator) -> Array:
    kind = dtype_of(dtype)
    if kind.kind in "iub":
        return generator.integers(0, 2, shape).astype(kind)
    return generator.standard_normal(shape).astype(kind)


def _load(value: str, string: str) -> dict[str, Array]:
    """The arrays of `@file`; a .npy file's single array has the name ""."""
    path = Path(value.removeprefix("@"))
    try:
        loaded = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise _bad(string, f"there is no file {path}") from None
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise _bad(string, f"{path} is not a NumPy file: {error}") from None
    return {"": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)


def _assign(named: Mapping[str, Array], unnamed: Sequence[Array], names: list[str]) -> list[Array]:
    unknown = sorted(set(named) - set(names))
    if unknown:
        raise InputError(
            f"the artifact has no input {', '.join(unknown)}",
            code="unknown-input",
            where="--input",
            hint=f"its inputs are {', '.join(names) or 'none'}",
        )
    open_names = [name for name in names if name not in named]
    if len(unnamed) != len(open_names):
        raise InputError(
            f"{len(open_names)} inputs remain to be given ({', '.join(open_names) or 'none'}), "
            f"but {len(unnamed)} unnamed --input flags are there",
            code="input-count",
            where="--input",
            hint="`lemurc inspect` lists the inputs with dtype and shape",
        )
    values = {**named, **dict(zip(open_names, unnamed, strict=True))}
    return [values[name] for name in names]


def _bad(string: str, why: str) -> UsageError:
    return UsageError(
        f"cannot read the input {string!r}: {why}",
        code="bad-input-flag",
        where="--input",
        hint="write 2x16xi64, @x.npy, @all.npz or name=@x.npy",
    )
