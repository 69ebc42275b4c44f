"""Eager execution of the user's own model, the answer a compiled program must give."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch

from lemurc import pytree
from lemurc.errors import InputError, UnsupportedModelError
from lemurc.frontend.arrays import to_array, to_tensor
from lemurc.frontend.program import Array, Reference
from lemurc.frontend.ties import StableTies
from lemurc.pytree import Tree


def eager_reference(
    module: torch.nn.Module,
    in_tree: Tree,
    out_tree: Tree,
    updates: tuple[int, ...] = (),
    *,
    stable_ties: bool = False,
) -> Reference:
    """Flat arrays in, flat arrays out, then the inputs of `updates` as the call left them.

    Each call starts from the state of now. Calls run on copies (parameters shared, buffers
    and attributes not), so neither the user's module nor a later call sees what a call
    changes. `stable_ties` fixes the places of equal values, see `ties.py`.
    """
    initial = _copy(module)

    def run(inputs: list[Array]) -> list[Array]:
        tensors = [to_tensor(array) for array in inputs]
        args, kwargs = pytree.unflatten(in_tree, tensors)
        ties = StableTies() if stable_ties else nullcontext()
        with torch.no_grad(), _exported_attention(), ties:
            result = _copy(initial)(*args, **kwargs)
        try:
            leaves = pytree.flatten(out_tree, result, "result")
        except InputError as error:
            raise UnsupportedModelError(
                f"eager does not return what it returned when it was exported: {error.message}",
                code="reference-structure",
                hint="return what changes from call to call as a tensor",
            ) from error
        return [_array(leaf) for leaf in (*leaves, *(tensors[index] for index in updates))]

    return run


@contextmanager
def _exported_attention() -> Iterator[None]:
    """Without the shortcut of PyTorch's transformer layers, which torch.export never takes.

    It gives zeros where padding is and NaN where all keys are masked.
    """
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)


def _array(leaf: Any) -> Array:
    """A tensor, or a Python number that stands where the artifact computes one."""
    return to_array(leaf) if isinstance(leaf, torch.Tensor) else np.asarray(leaf)


def _copy(module: torch.nn.Module) -> torch.nn.Module:
    shared: dict[int, Any] = {id(parameter): parameter for parameter in module.parameters()}
    return copy.deepcopy(module, shared)
