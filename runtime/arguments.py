"""The arguments of one call on their way in, and what goes back to its caller."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lemurc.pytree import unflatten
from lemurc.runtime.boundary import to_arrays, to_torch
from lemurc.runtime.input_updates import write_back
from lemurc.runtime.signature import Signature


class Arguments:
    """Checked arguments: `arrays` are flat, in the order of the function's inputs."""

    __slots__ = ("_leaves", "_signature", "_torch_device", "arrays")

    def __init__(
        self, signature: Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self._signature = signature
        self._leaves = signature.bind(args, dict(kwargs))
        self.arrays, self._torch_device = to_arrays(
            self._leaves, signature.function.inputs, signature.dtypes
        )
        signature.check(self.arrays)
        if signature.updated:
            signature.check_writable(self._leaves, self.arrays)

    def copied(self) -> list[Any]:
        """The arrays, for a call that outlives its caller's attention."""
        return [a.copy() if isinstance(a, np.ndarray) else a for a in self.arrays]

    def answer(self, results: list[Any], updates: Mapping[int, Any], on_device: bool) -> Any:
        """What the caller gets for flat `results`; arguments that the model changes are changed."""
        if updates:
            write_back(self._leaves, updates)
        if self._torch_device is not None and not on_device:
            results = [to_torch(result, self._torch_device) for result in results]
        return unflatten(self._signature.function.out_tree, results)
