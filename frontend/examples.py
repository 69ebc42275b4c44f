"""The example call as torch.export needs it: tensors, and no memory shared between them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as torch_pytree

from lemurc.errors import UsageError
from lemurc.frontend.arrays import to_tensor


def example_call(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """`args` and `kwargs` with NumPy arrays as tensors and each tensor in its own memory.

    torch.export takes two arguments that are the same tensor, or a weight of the model,
    for one and the same in every later call too.
    """
    seen: set[int] = set()
    if isinstance(model, torch.nn.Module):
        seen = {_memory(tensor) for tensor in [*model.parameters(), *model.buffers()]} - {0}

    def prepared(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray):
            return _tensor(leaf)
        if not isinstance(leaf, torch.Tensor):
            return leaf
        memory = _memory(leaf)
        if memory in seen:
            return leaf.detach().clone()
        if memory:
            seen.add(memory)
        return leaf

    prepared_args, prepared_kwargs = torch_pytree.tree_map(prepared, (tuple(args), dict(kwargs)))
    return prepared_args, prepared_kwargs


def _memory(tensor: torch.Tensor) -> int:
    """Where the tensor's storage lies; 0 where it has none."""
    if tensor.layout is not torch.strided:
        return 0
    return tensor.untyped_storage().data_ptr()


def _tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    if isinstance(array, np.ma.MaskedArray):
        raise UsageError(
            "an example input is a masked array, whose mask would be ignored",
            code="example-dtype",
            hint="fill what is masked, x.filled(0.0), or pass x.data and the mask by themselves",
        )
    try:
        return to_tensor(array)
    except TypeError as error:
        raise UsageError(
            f"an example input is a NumPy array of {array.dtype}, which PyTorch does not have",
            code="example-dtype",
            hint="convert it with .astype(...) first",
        ) from error
