"""Which of equal values an operator names, where PyTorch leaves it open.

`sort`, `topk`, `kthvalue`, the medians and `mode` return places as well as values. Among equal
values eager's choice is whatever its partial or unstable sort leaves, and changes with size and
version; compiled programs name those a stable sort does. The values are eager's own, where
0.0 and -0.0, which are equal, have the sign of the one that is named.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_aten = torch.ops.aten


class StableTies(TorchDispatchMode):
    """Eager, but for the places of equal values."""

    supports_higher_order_operators = True

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        places, kwargs = _PLACES.get(func), kwargs or {}
        if places is None or args[0].dim() == 0:
            return func(*args, **kwargs)
        if func is _aten.topk.default:  # unsorted is any order, the sorted one too
            args, kwargs = args[:4], {k: v for k, v in kwargs.items() if k != "sorted"}
        values, _ = func(*args, **kwargs)
        found = places(*args, values=values, **kwargs)
        if values.is_floating_point():
            dim = _argument(func, "dim", args, kwargs)
            kept = found.dim() == args[0].dim()
            named = args[0].gather(dim, found if kept else found.unsqueeze(dim))
            values = torch.where(values == 0, named if kept else named.squeeze(dim), values)
        return values, found


def names_places(graph: torch.fx.Graph) -> bool:
    """Whether a program, or one of the programs in it, has an operator of this kind."""
    return any(node.target in _PLACES or node.target in _SORTS for node in graph.nodes) or any(
        names_places(module.graph)
        for node in graph.nodes
        if node.op == "get_attr"
        and isinstance(
            module := getattr(graph.owning_module, str(node.target), None), torch.fx.GraphModule
        )
    )


def _argument(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    parameters = list(func._schema.arguments)
    at = next(i for i, parameter in enumerate(parameters) if parameter.name == name)
    return args[at] if at < len(args) else kwargs.get(name, parameters[at].default_value)


def _sort(
    x: torch.Tensor,
    dim: int = -1,
    descending: bool = False,
    *,
    stable: bool | None = None,
    values: torch.Tensor,
) -> torch.Tensor:
    return x.sort(dim=dim, descending=descending, stable=True)[1]


def _topk(
    x: torch.Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    values: Any,
) -> torch.Tensor:
    return x.sort(dim=dim, descending=largest, stable=True)[1].narrow(dim, 0, k)


def _kthvalue(
    x: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False, *, values: torch.Tensor
) -> torch.Tensor:
    place = x.sort(dim=dim, stable=True)[1].narrow(dim, k - 1, 1)
    return place if keepdim else place.squeeze(dim)


def _median(
    x: torch.Tensor, dim: int, keepdim: bool = False, *, values: torch.Tensor
) -> torch.Tensor:
    """The first place of NaN, else as `kthvalue`."""
    value = values if keepdim else values.unsqueeze(dim)
    middle = _kthvalue(x, (x.shape[dim] + 1) // 2, dim, True, values=values)
    missing = x != x
    place = torch.where(value != value, missing.to(torch.int64).argmax(dim, True), middle)
    return place if keepdim else place.squeeze(dim)


def _nanmedian(
    x: torch.Tensor, dim: int, keepdim: bool = False, *, values: torch.Tensor
) -> torch.Tensor:
    count = (x == x).sum(dim, True)
    order = x.sort(dim=dim, stable=True)[1]
    place = order.gather(dim, ((count - 1) // 2).clamp(min=0))
    return place if keepdim else place.squeeze(dim)


def _mode(
    x: torch.Tensor, dim: int = -1, keepdim: bool = False, *, values: torch.Tensor
) -> torch.Tensor:
    """The last place."""
    value = values if keepdim else values.unsqueeze(dim)
    length = x.shape[dim]
    place = length - 1 - (x == value).flip(dim).to(torch.int64).argmax(dim, True)
    return place if keepdim else place.squeeze(dim)


_PLACES: dict[Any, Callable[..., torch.Tensor]] = {
    _aten.topk.default: _topk,
    _aten.kthvalue.default: _kthvalue,
    _aten.median.dim: _median,
    _aten.nanmedian.dim: _nanmedian,
    _aten.mode.default: _mode,
    _aten.sort.default: _sort,
    _aten.sort.stable: _sort,
}
_SORTS = frozenset({_aten.argsort.default, _aten.msort.default})
"""In eager they are sorts already when they get here."""
