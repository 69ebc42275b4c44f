"""Calling an artifact with flat arrays: what `run`, `verify` and `bench` have in common."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lemurc import pytree
from lemurc.errors import UsageError
from lemurc.manifest import Function, Manifest
from lemurc.tools import inputs
from lemurc.verification import Comparison, compare, tolerance_of

Array = NDArray[Any]


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


def call(session: Any, name: str, function: Function, arrays: Sequence[Array]) -> list[Array]:
    """Run entry point `name` on flat inputs; its flat outputs as NumPy arrays.

    The arrays stay as they are, whatever the model does to its arguments.
    """
    own = [
        array.copy() if str(index) in function.input_updates else array
        for index, array in enumerate(arrays)
    ]
    args, kwargs = pytree.unflatten(function.in_tree, own)
    result = session.call(name, args, kwargs, None)
    return [np.asarray(leaf) for leaf in pytree.flatten(function.out_tree, result, "result")]


def as_request(function: Function, arrays: Sequence[Array]) -> dict[str, Any]:
    """An item of `session.stream` that calls `function` on flat inputs."""
    args, kwargs = pytree.unflatten(function.in_tree, list(arrays))
    names = function.argument_names
    given = (names[k] if k < len(names) else f"argument {k}" for k in range(len(args)))
    return {**dict(zip(given, args, strict=True)), **kwargs}


def choose_inputs(
    artifact: Any, name: str, strings: Sequence[str]
) -> tuple[str, list[Array], list[Array] | None]:
    """Where the inputs come from, the inputs, and the golden outputs if they belong to them.

    "command line" when `strings` are given, else "golden", else "drawn" from the signature.
    """
    signature = artifact.manifest.functions[name].inputs
    if strings:
        return "command line", inputs.read(strings, signature), None
    recorded = artifact.golden(name)
    if recorded is None:
        return "drawn", inputs.draw_like(signature), None
    return "golden", *recorded


def compare_outputs(
    manifest: Manifest, function: Function, got: Sequence[Array], want: Sequence[Array]
) -> list[Comparison]:
    """Each output against its golden one, by the tolerances the artifact was made with."""
    names = [spec.name for spec in function.outputs]
    allowed = [manifest.tolerance.get(str(r.dtype), tolerance_of(str(r.dtype))) for r in want]
    rows = zip(names, got, want, allowed, strict=True)
    return [compare(name, y, r, limit) for name, y, r, limit in rows]
