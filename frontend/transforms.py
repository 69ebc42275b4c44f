"""Models that differentiate inside `forward`, by torch.func or torch.autograd.

torch.export (2.13, not strict) takes values computed under a gradient transform for
constants. `make_fx` records the transform as the operators it comes to, so such a model
is recorded first, for the sizes of its example, and then exported.
"""

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as torch_pytree


def lost_values(program: ExportedProgram) -> bool:
    """Whether the export holds values of a transform as constants."""
    return any(
        isinstance(value, torch.Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(value)
        for value in program.constants.values()
    )


def is_transform_error(error: Exception) -> bool:
    text = str(error)
    return "functorch" in text or "TensorWrapper" in text or "constant's list" in text


def recorded(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> torch.nn.Module:
    """A module of the same signature, weights and results without transforms in it."""
    leaves, spec = torch_pytree.tree_flatten((args, dict(kwargs)))
    tensors = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    weights = dict(model.named_parameters()) | dict(model.named_buffers())

    def flat(weights: dict[str, torch.Tensor], values: list[torch.Tensor]) -> Any:
        given = list(leaves)
        for at, value in zip(tensors, values, strict=True):
            given[at] = value
        own_args, own_kwargs = torch_pytree.tree_unflatten(given, spec)
        return torch.func.functional_call(model, weights, own_args, own_kwargs)

    plain = {name: weight.detach().clone() for name, weight in weights.items()}
    graph = make_fx(flat)(plain, [leaves[at].detach().clone() for at in tensors])

    class Recorded(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            given = torch_pytree.tree_leaves((args, kwargs))
            own = dict(self.model.named_parameters()) | dict(self.model.named_buffers())
            return graph(own, [given[at] for at in tensors])

    functools.update_wrapper(Recorded.forward, type(model).forward)  # for argument names
    module = Recorded()
    module.train(model.training)
    return module
