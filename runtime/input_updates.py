"""Arguments that the model changes in place, as `x.add_(1)` does.

The compiled function computes the new value apart; it is written into the caller's array
or tensor once the whole call has gone well. A DeviceTensor gets the new value as its own,
without a copy.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lemurc.errors import InputError
from lemurc.manifest import TensorSpec
from lemurc.runtime.boundary import DeviceTensor, to_torch


def check_writable(
    function: str,
    leaves: Sequence[Any],
    arrays: Sequence[Any],
    updated: Sequence[int],
    specs: Sequence[TensorSpec],
) -> None:
    """Raise InputError where the new value could not be written back."""
    for index in updated:
        problem = _problem(leaves[index], arrays[index])
        if not problem:
            problem = _overlap(index, arrays, specs)
        if problem:
            raise InputError(
                f"argument {specs[index].name!r} is changed in place by the model, but {problem}",
                code="input-not-writable",
                where=f"{function}()",
                hint="pass a copy: a writable array or tensor with memory of its own",
            )


def write_back(leaves: Sequence[Any], values: Mapping[int, Any]) -> None:
    """Give each of the caller's `leaves` its new value; `values` are arrays of our own."""
    torch = sys.modules.get("torch")
    for index, value in values.items():
        leaf = leaves[index]
        if isinstance(leaf, DeviceTensor):
            leaf.view, leaf.device = value.view, value.device
        elif torch is not None and isinstance(leaf, torch.Tensor):
            leaf.detach().copy_(to_torch(value, leaf.device))
        else:
            array = leaf if isinstance(leaf, np.ndarray) else np.from_dlpack(leaf)
            array[...] = value


def _problem(leaf: Any, array: Any) -> str:
    if isinstance(leaf, DeviceTensor):
        return ""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(leaf, torch.Tensor):
        if leaf.requires_grad and leaf.is_leaf and torch.is_grad_enabled():
            return "it is a leaf that requires gradients"
        strides: Sequence[int] = leaf.stride()
    elif isinstance(leaf, np.ndarray) or hasattr(leaf, "__dlpack__"):
        if not array.flags.writeable:
            return "it is read-only"
        strides = array.strides
    else:
        return f"a {type(leaf).__name__} cannot change"
    if any(stride == 0 and size > 1 for stride, size in zip(strides, leaf.shape, strict=True)):
        return "several of its elements share memory"
    return ""


def _overlap(index: int, arrays: Sequence[Any], specs: Sequence[TensorSpec]) -> str:
    """Eager would see the change in the other argument too; the compiled model cannot."""
    for other, array in enumerate(arrays):
        both = isinstance(array, np.ndarray) and isinstance(arrays[index], np.ndarray)
        if other != index and both and np.shares_memory(array, arrays[index]):
            return f"it shares memory with argument {specs[other].name!r}"
    return ""
