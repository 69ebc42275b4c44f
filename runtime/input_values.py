"""The values of integer inputs, looked at where the model would read outside a table.

One pass over an input: as an unsigned number a negative index is larger than any table.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lemurc.errors import InputError
from lemurc.manifest import InputRange, TensorSpec


def check_values(
    function: str,
    arrays: Sequence[Any],
    ranges: Sequence[InputRange],
    specs: Sequence[TensorSpec],
) -> None:
    """Raise InputError unless every value is in its range; `arrays` have the right types."""
    for wanted in ranges:
        value = arrays[wanted.input]
        array = value if isinstance(value, np.ndarray) else value.numpy()
        if array.size and not _fits(array, wanted):
            raise _outside(function, array, wanted, specs[wanted.input].name)


def _fits(array: np.ndarray, wanted: InputRange) -> bool:
    if wanted.nonzero:
        return bool(array.all())
    low, high = wanted.min, wanted.max
    if low == 0 and high is not None and array.dtype.kind == "i":
        return bool(array.view(f"u{array.dtype.itemsize}").max() <= max(high, 0)) and high >= 0
    return (low is None or bool(array.min() >= low)) and (high is None or bool(array.max() <= high))


def _outside(function: str, array: np.ndarray, wanted: InputRange, name: str) -> InputError:
    wrong = array == 0 if wanted.nonzero else np.zeros(array.shape, bool)
    if wanted.min is not None:
        wrong |= array < wanted.min
    if wanted.max is not None:
        wrong |= array > wanted.max
    place = tuple(int(index) for index in np.argwhere(wrong)[0])
    at = f" at {list(place)}" if place else ""
    low, high = ("" if bound is None else bound for bound in (wanted.min, wanted.max))
    allowed = "" if wanted.nonzero else f", outside the range {low}..{high}"
    return InputError(
        f"argument {name!r} holds {array[place]}{at}{allowed}: {wanted.reason}",
        code="input-range",
        where=f"{function}()",
        hint="the model itself refuses this value too; check where it comes from",
    )
