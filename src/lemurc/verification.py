"""Is the compiled program's answer PyTorch's answer?

The policy, per output: integers and booleans are equal; NaN and infinities stand in the
same places; for floating point max|y - r| <= tolerance * max|r|, with a tolerance by dtype
that covers another order of summation and nothing more. Where eager itself is further from
the same model in float64 than that, four times eager's own error is allowed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Arrays = Sequence[Array]
Reference = Callable[[Arrays], Arrays]

TOLERANCE = {"float64": 1e-7, "float32": 1e-4, "float16": 1e-2, "bfloat16": 2e-2}
COARSEST = 6e-2
"""For the 8-bit floats, whose neighbours are 6% and more apart."""
EAGER_ERRORS_ALLOWED = 4.0


@dataclass(frozen=True)
class Comparison:
    """One output against its reference; errors are in units of max|reference|."""

    name: str
    ok: bool
    error: float
    allowed: float
    detail: str = ""


def compare(name: str, got: Array, want: Array, allowed: float) -> Comparison:
    """Shapes and dtypes must agree too; `allowed` counts for floating point only."""
    if got.shape != want.shape or got.dtype != want.dtype:
        detail = f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
        return Comparison(name, False, float("inf"), allowed, detail)
    if not is_inexact(want):
        wrong = int(np.count_nonzero(got != want))
        return Comparison(name, wrong == 0, float(wrong > 0), 0.0, _wrong(wrong, want.size))
    y: Array = widen(got)
    r: Array = widen(want)
    finite = np.isfinite(r)
    same_places = np.array_equal(finite, np.isfinite(y)) and np.array_equal(
        y[~finite], r[~finite], equal_nan=True
    )
    if not same_places:
        return Comparison(name, False, float("inf"), allowed, "NaN or infinities in other places")
    if not finite.any():
        return Comparison(name, True, 0.0, allowed)
    difference = np.abs(y[finite] - r[finite])
    scale = float(np.abs(r[finite]).max())
    error = float(difference.max()) / scale if scale else float(difference.max())
    return Comparison(name, error <= allowed, error, allowed)


def tolerance_of(dtype: str, override: float | None = None) -> float:
    return override if override is not None else TOLERANCE.get(dtype, COARSEST)


def compare_all(
    names: Sequence[str],
    got: Arrays,
    want: Arrays,
    *,
    tolerance: float | None = None,
    exact: Callable[[], Arrays] | None = None,
) -> list[Comparison]:
    """Compare every output. `exact` computes the reference in float64, only when needed."""
    results = [
        compare(name, y, r, tolerance_of(str(r.dtype), tolerance))
        for name, y, r in zip(names, got, want, strict=True)
    ]
    if exact is None or all(result.ok for result in results):
        return results
    for i, (result, best) in enumerate(zip(results, exact(), strict=True)):
        if result.ok or not np.isfinite(result.error):
            continue
        eager = compare(names[i], want[i], best.astype(want[i].dtype), 0.0).error
        allowed = max(result.allowed, EAGER_ERRORS_ALLOWED * eager)
        results[i] = compare(names[i], got[i], want[i], allowed)
    return results


def is_inexact(array: Array) -> bool:
    """ml_dtypes' floats are no subtypes of np.inexact."""
    return array.dtype.kind in "fc" or (array.dtype.kind == "V" and "float" in array.dtype.name)


def widen(array: Array) -> Array:
    wide: Array = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    return wide


def _wrong(count: int, size: int) -> str:
    return f"{count} of {size} entries differ" if count else ""


@dataclass(frozen=True)
class Verdict:
    """How one target fared. `status` is "verified", "failed", "not run"
    or "not compiled".

    `max_error` is the largest error of any output in units of its largest reference;
    `detail` says on which device, or why the target did not run and what did instead.
    """

    target: str
    status: str
    max_error: float = 0.0
    detail: str = ""
