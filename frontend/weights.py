"""One store of weights and state for all entry points of a model.

A tensor that several parameters or several modules share (tied embeddings, prefill and
decode over one model) is stored once, under the first name it was met by.
"""

import torch

from lemurc.errors import UnsupportedModelError
from lemurc.frontend.arrays import to_array
from lemurc.frontend.program import Array

_Identity = tuple[object, ...]


class WeightStore:
    def __init__(self) -> None:
        self._names: dict[_Identity, str] = {}
        self._tensors: dict[str, torch.Tensor] = {}
        self._used: set[str] = set()
        self._state: dict[str, None] = {}

    def name_of(self, tensor: torch.Tensor, wanted: str, entry_point: str) -> str:
        """The name `tensor` is stored under; `wanted`, unless met before or taken."""
        identity = _identity(tensor)
        known = self._names.get(identity)
        if known is not None:
            return known
        name = wanted if wanted not in self._tensors else f"{entry_point}.{wanted}"
        self._names[identity] = name
        self._tensors[name] = tensor
        return name

    def use(self, name: str) -> None:
        """Unused weights are left out of the program."""
        self._used.add(name)

    def add_state(self, name: str) -> None:
        """Mark a tensor that some entry point changes; it must not share memory."""
        if name in self._state:
            return
        storage = self._tensors[name].untyped_storage().data_ptr()
        for other, tensor in self._tensors.items():
            if other != name and storage and tensor.untyped_storage().data_ptr() == storage:
                raise UnsupportedModelError(
                    f"the model changes {name!r}, which shares memory with {other!r}",
                    code="aliased-state",
                    hint="give one of the two its own memory with .clone()",
                )
        self._state[name] = None
        self._used.add(name)

    @property
    def state(self) -> tuple[str, ...]:
        return tuple(self._state)

    def arrays(self) -> dict[str, Array]:
        """Used tensors by name; state is copied, as eager calls would change it."""
        return {
            name: to_array(tensor.clone() if name in self._state else tensor)
            for name, tensor in self._tensors.items()
            if name in self._used
        }


def _identity(tensor: torch.Tensor) -> _Identity:
    storage = tensor.untyped_storage().data_ptr()
    if not storage:  # empty tensors have no address
        return (id(tensor),)
    return (storage, tensor.storage_offset(), tensor.dtype, tuple(tensor.shape), tensor.stride())
