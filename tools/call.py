"""Calling an artifact with flat arrays: what `run`, `verify` and `bench` have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lemurc import pytree
from lemurc.errors import UsageError
from lemurc.manifest import Function, Manifest, TensorFile
from lemurc.tools.inputs import dtype_of
from lemurc.verification import Comparison, compare, tolerance_of

Array = NDArray[Any]


@dataclass(frozen=True)
class Golden:
    """Arrays of one recorded call."""

    inputs: list[Array]
    outputs: list[Array]


def choose_function(manifest: Manifest, name: str | None) -> str:
    """`name`, else `main`, else the only entry point."""
    names = list(manifest.functions)
    chosen = name or (names[0] if len(names) == 1 else "main")
    if chosen not in manifest.functions:
        raise UsageError(
            f"the artifact has no function {chosen!r}",
            code="unknown-function",
            where="--function",
            hint=f"it has {', '.join(names)}",
        )
    return chosen


def call(session: Any, name: str, function: Function, inputs: Sequence[Array]) -> list[Array]:
    """Run entry point `name` on flat inputs; its flat outputs as NumPy arrays."""
    args, kwargs = pytree.unflatten(function.in_tree, list(inputs))
    entry = session if name == "main" else getattr(session, name)
    result = entry(*args, **kwargs)
    return [np.asarray(leaf) for leaf in pytree.flatten(function.out_tree, result, "result")]


def golden(artifact: Any, name: str) -> Golden | None:
    """The recorded call of `name`, None when the artifact was made without."""
    recorded = artifact.manifest.golden.get(name)
    if recorded is None:
        return None
    return Golden(
        [_tensor(artifact, file) for file in recorded.inputs],
        [_tensor(artifact, file) for file in recorded.outputs],
    )


def compare_outputs(
    manifest: Manifest, function: Function, got: Sequence[Array], want: Sequence[Array]
) -> list[Comparison]:
    """Each output against its golden one, by the tolerances the artifact was made with."""
    names = [spec.name for spec in function.outputs]
    allowed = [manifest.tolerance.get(str(r.dtype), tolerance_of(str(r.dtype))) for r in want]
    rows = zip(names, got, want, allowed, strict=True)
    return [compare(name, y, r, limit) for name, y, r, limit in rows]


def _tensor(artifact: Any, file: TensorFile) -> Array:
    data = artifact.read(file.file)
    return np.frombuffer(data, dtype_of(file.dtype)).reshape(file.shape)
