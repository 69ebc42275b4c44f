"""Eager execution of the user's own model, the answer a compiled program must give."""

import copy
from typing import Any

import torch

from lemurc import pytree
from lemurc.errors import InternalError
from lemurc.frontend.arrays import to_array, to_tensor
from lemurc.frontend.program import Array, Reference
from lemurc.pytree import Tree


def eager_reference(module: torch.nn.Module, in_tree: Tree, out_tree: Tree) -> Reference:
    """Flat arrays in, flat arrays out. Each call starts from the state of now.

    Calls run on copies (parameters shared, buffers and attributes not), so neither the
    user's module nor a later call sees what a call changes.
    """
    initial = _copy(module)

    def run(inputs: list[Array]) -> list[Array]:
        args, kwargs = pytree.unflatten(in_tree, [to_tensor(array) for array in inputs])
        with torch.no_grad():
            result = _copy(initial)(*args, **kwargs)
        leaves, tree = pytree.describe(result, lambda node: isinstance(node, torch.Tensor))
        if pytree.count_leaves(tree) != pytree.count_leaves(out_tree):
            raise InternalError(
                "the model returned another structure than when it was exported",
                code="reference-structure",
            )
        return [to_array(leaf) for leaf in leaves]

    return run


def _copy(module: torch.nn.Module) -> torch.nn.Module:
    shared: dict[int, Any] = {id(parameter): parameter for parameter in module.parameters()}
    return copy.deepcopy(module, shared)
