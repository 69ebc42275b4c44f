"""Writing into tensors at computed places, and bags of embeddings."""

from typing import Any

import torch

from lemurc.frontend.operators.floating import HALVES, Table

_REDUCTIONS = {"add": "sum", "multiply": "prod"}
_SUM, _MEAN, _MAX = 0, 1, 2


def scatter_reduce(
    values: torch.Tensor, dim: int, index: torch.Tensor, src: Any, *, reduce: str
) -> torch.Tensor:
    if not isinstance(src, torch.Tensor):
        src = torch.full(index.shape, src, dtype=values.dtype)
    return torch.scatter_reduce(values, dim, index, src, _REDUCTIONS[reduce])


def scatter_add(
    values: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor
) -> torch.Tensor:
    """Halves are summed in f32, as eager does."""
    if values.dtype not in HALVES:
        return NotImplemented
    wide = values.to(torch.float32)
    return torch.scatter_add(wide, dim, index, src.to(torch.float32)).to(values.dtype)


def scatter_reduce_two(
    values: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    src: torch.Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> torch.Tensor:
    """The same."""
    if values.dtype not in HALVES or reduce not in ("sum", "mean", "prod"):
        return NotImplemented
    wide, given = values.to(torch.float32), src.to(torch.float32)
    made = torch.scatter_reduce(wide, dim, index, given, reduce, include_self=include_self)
    return made.to(values.dtype)


def index_reduce(
    values: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    source: torch.Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> torch.Tensor:
    shape = [1] * source.dim()
    shape[dim] = -1
    wide = index.view(shape).expand_as(source)
    return torch.scatter_reduce(values, dim, wide, source, reduce, include_self=include_self)


def put(
    values: torch.Tensor, index: torch.Tensor, source: torch.Tensor, accumulate: bool = False
) -> torch.Tensor:
    flat = values.flatten()
    made = torch.index_put(flat, (index.flatten(),), source.flatten(), accumulate)
    return made.view(values.shape)


def index_put(
    values: torch.Tensor,
    indices: list[torch.Tensor | None],
    source: torch.Tensor,
    accumulate: bool = False,
) -> Any:
    """Writes through one boolean mask, without counting what it selects.

    Each selected entry knows its place among the selected by a cumulative sum. Indices of
    int32 are widened: torch-mlir takes them only for the first dimension.
    """
    given = [(at, index) for at, index in enumerate(indices) if index is not None]
    if any(index.dtype is torch.int32 for _, index in given):
        wide = [None if item is None else _widened(item) for item in indices]
        return torch.ops.aten.index_put.default(values, wide, source, accumulate)
    if len(given) != 1 or given[0][1].dtype not in (torch.bool, torch.uint8):
        return NotImplemented
    first, mask = given[0]
    mask = mask.to(torch.bool)
    rest = values.dim() - first - mask.dim()
    spread = mask.view([1] * first + list(mask.shape) + [1] * rest)
    if source.dim() <= rest + first and (first == 0 or source.dim() == 0):
        written = source
    elif source.dim() == rest + first + 1 and source.shape[first] == 1:
        shape = [*source.shape[:first], *[1] * mask.dim(), *source.shape[first + 1 :]]
        written = source.reshape(shape)
    elif source.dim() == rest + first + 1:
        place = torch.cumsum(mask.flatten().to(torch.int64), 0) - 1
        chosen = source.index_select(first, place.clamp(0, source.shape[first] - 1))
        written = chosen.unflatten(first, mask.shape)
    else:
        return NotImplemented
    written = written.to(values.dtype)
    return torch.where(spread, values + written if accumulate else written, values)


def _widened(index: torch.Tensor) -> torch.Tensor:
    return index.long() if index.dtype is torch.int32 else index


def diagonal_scatter(
    values: torch.Tensor, src: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> torch.Tensor:
    places = torch.arange(values.numel()).view(values.shape).diagonal(offset, dim1, dim2)
    return _write(values, places, src)


def as_strided_scatter(
    values: torch.Tensor,
    src: torch.Tensor,
    size: list[int],
    stride: list[int],
    storage_offset: int | None = None,
) -> torch.Tensor:
    """As if `values` were row-major, which our programs are."""
    places = torch.arange(values.numel()).as_strided(size, stride, storage_offset or 0)
    return _write(values, places, src)


def _write(values: torch.Tensor, places: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    flat = values.reshape(-1)
    return torch.scatter(flat, 0, places.reshape(-1), src.reshape(-1)).view(values.shape)


def embedding_renorm(
    weight: torch.Tensor, indices: torch.Tensor, max_norm: float, norm_type: float
) -> torch.Tensor:
    """Rows that are looked up and longer than `max_norm` are made as long as that."""
    norms = torch.linalg.vector_norm(weight, norm_type, dim=1)
    scale = torch.where(norms > max_norm, max_norm / (norms + 1e-7), 1.0)
    rows = torch.arange(weight.shape[0])
    used = (indices.flatten()[None, :] == rows[:, None]).any(1)
    return weight * torch.where(used, scale, 1.0)[:, None]


def embedding_bag(
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = -1,
) -> tuple[torch.Tensor, ...]:
    """Rows of each bag added, averaged or compared; entries of the padding do not count."""
    bags = offsets.shape[0] - int(include_last_offset)
    count = indices.shape[0]
    starts = offsets[:bags]
    bag = (torch.arange(count)[:, None] >= starts[None, :]).sum(1) - 1
    rows = torch.nn.functional.embedding(indices, weight)
    if padding_idx is None or padding_idx == -1:
        counted = torch.ones(count, dtype=torch.bool)
    else:
        counted = indices != padding_idx % weight.shape[0]
    sizes = torch.zeros(bags, dtype=torch.int64).index_add(0, bag, counted.to(torch.int64))
    unused = torch.zeros(0, dtype=torch.int64)
    if mode == _MAX:
        low = torch.full((bags, weight.shape[1]), -torch.inf, dtype=weight.dtype)
        rows = torch.where(counted[:, None], rows, -torch.inf)
        best = torch.scatter_reduce(low, 0, bag[:, None].expand_as(rows), rows, "amax")
        return torch.where(sizes[:, None] == 0, 0.0, best), bag, sizes, unused
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    rows = torch.where(counted[:, None], rows, 0.0)
    wide = torch.float64 if weight.dtype is torch.float64 else torch.float32
    total = torch.zeros(bags, weight.shape[1], dtype=wide).index_add(0, bag, rows.to(wide))
    if mode == _MEAN:
        total = total / sizes.clamp(min=1)[:, None]
    return total.to(weight.dtype), bag, sizes, unused


_aten = torch.ops.aten
TABLE: Table = {
    _aten._embedding_bag.default: embedding_bag,
    _aten._embedding_bag_forward_only.default: embedding_bag,
    _aten.as_strided_scatter.default: as_strided_scatter,
    _aten.diagonal_scatter.default: diagonal_scatter,
    _aten.embedding_bag.padding_idx: embedding_bag,
    _aten.embedding_renorm.default: embedding_renorm,
    _aten.index_put.default: index_put,
    _aten.index_reduce.default: index_reduce,
    _aten.put.default: put,
    _aten.scatter.reduce: scatter_reduce,
    _aten.scatter.value_reduce: scatter_reduce,
    _aten.scatter_add.default: scatter_add,
    _aten.scatter_reduce.two: scatter_reduce_two,
}
