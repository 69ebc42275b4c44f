"""Searching, counting and order statistics, with sizes that do not depend on values."""

from typing import Any

import torch

from lemurc.frontend.operators.floating import Table


def searchsorted(
    sequence: torch.Tensor,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> torch.Tensor:
    """Where each value belongs: by eager's binary search, so that a sequence which is not
    sorted gives the same; of a size that is not known, by comparing with all entries.

    The comparisons are negated so that a NaN comes after everything, as in eager.
    """
    if sorter is not None:
        sequence = torch.gather(sequence, -1, sorter)
    if not isinstance(values, torch.Tensor):
        values = torch.scalar_tensor(values, dtype=sequence.dtype)
    dtype = torch.promote_types(sequence.dtype, values.dtype)
    sequence, values = sequence.to(dtype), values.to(dtype)
    after = torch.gt if right or side == "right" else torch.ge
    result = torch.int32 if out_int32 else torch.int64
    if isinstance(sequence.shape[-1], int) and sequence.shape[-1] > 0:
        return _halved(sequence, values, after).to(result)
    if sequence.dim() > 1:
        sequence = sequence.unsqueeze(-2)
    before = torch.logical_not(after(sequence, values.unsqueeze(-1)))
    return before.sum(-1, dtype=result)


def _halved(sequence: torch.Tensor, values: torch.Tensor, after: Any) -> torch.Tensor:
    size = sequence.shape[-1]
    start = torch.zeros_like(values, dtype=torch.int64)
    end = torch.full_like(start, size)
    for _ in range(size.bit_length()):
        middle = start + (end - start) // 2
        at = middle.clamp(max=size - 1)  # once they have met
        if sequence.dim() > 1:
            found = sequence.gather(-1, at)
        else:
            found = sequence.index_select(0, at.reshape(-1)).reshape(at.shape)
        searching = start < end
        is_after = after(found, values)
        end = torch.where(searching & is_after, middle, end)
        start = torch.where(searching & ~is_after, middle + 1, start)
    return start


def bucketize(
    values: Any, boundaries: torch.Tensor, *, out_int32: bool = False, right: bool = False
) -> torch.Tensor:
    return searchsorted(boundaries, values, out_int32=out_int32, right=right)


def histc(values: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> torch.Tensor:
    """Counts of values in `bins` equal intervals, by comparing each value with each bin."""
    flat = values.flatten()
    wide = flat if flat.is_floating_point() else flat.to(torch.float32)
    low: Any = min
    high: Any = max
    if min == max:  # the range is that of the values, widened when they are all equal
        low, high = (wide.amin(), wide.amax()) if min == 0 else (wide.new_full((), min),) * 2
        equal = (low == high).to(wide.dtype)
        low, high = low - equal, high + equal
    place = ((wide - low) / (high - low) * bins).to(torch.int64).clamp(max=bins - 1)
    inside = (wide >= low) & (wide <= high)
    hits = (place[:, None] == torch.arange(bins)) & inside[:, None]
    return hits.sum(0).to(values.dtype)


def sort_stable(
    values: torch.Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> Any:
    """The lowering of `sort` keeps equal values in order."""
    return torch.ops.aten.sort.default(values, dim, descending)


def median(values: torch.Tensor) -> torch.Tensor:
    return median_dim(values.flatten(), 0)[0]


def median_dim(
    values: torch.Tensor, dim: int, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """The lower median; a NaN wins."""
    ordered, places = torch.sort(values, dim)
    middle = (values.shape[dim] - 1) // 2
    value, place = ordered.select(dim, middle), places.select(dim, middle)
    if values.is_floating_point():
        missing = torch.isnan(values)
        bad, first = missing.any(dim), missing.to(torch.int64).argmax(dim)
        value = torch.where(bad, torch.full_like(value, torch.nan), value)
        place = torch.where(bad, first, place)
    if keepdim:
        return value.unsqueeze(dim), place.unsqueeze(dim)
    return value, place


def _extreme(
    values: torch.Tensor, reduce: Any, dim: int | None, keepdim: bool
) -> tuple[torch.Tensor, torch.Tensor] | Any:
    """The extreme and its first place; the first NaN wins, which torch-mlir passes over."""
    if not values.is_floating_point():
        return NotImplemented
    if values.dim() == 0:
        return values.clone(), torch.zeros_like(values, dtype=torch.int64)
    if dim is None:
        whole = values.flatten()
        value, place = _extreme(whole, reduce, 0, keepdim)
        return value, place.view([1] * values.dim()) if keepdim else place
    value = reduce(values, [dim], True)
    hits = (values == value) | (values != values)
    place = hits.to(torch.int32).argmax(dim, keepdim)
    return value if keepdim else value.squeeze(dim), place


def max_dim(values: torch.Tensor, dim: int, keepdim: bool = False) -> Any:
    return _extreme(values, torch.amax, dim, keepdim)


def min_dim(values: torch.Tensor, dim: int, keepdim: bool = False) -> Any:
    return _extreme(values, torch.amin, dim, keepdim)


def argmax(values: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    made = _extreme(values, torch.amax, dim, keepdim)
    return made if made is NotImplemented else made[1]


def argmin(values: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    made = _extreme(values, torch.amin, dim, keepdim)
    return made if made is NotImplemented else made[1]


def topk(
    values: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Any:
    """Unsorted is any order."""
    return NotImplemented if sorted else torch.topk(values, k, dim, largest)


def kthvalue(
    values: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """The k-th smallest, a NaN being larger than all numbers."""
    if values.dim() == 0:
        return values.clone(), torch.zeros_like(values, dtype=torch.int64)
    ordered, places = torch.sort(values, dim)
    value, place = ordered.select(dim, k - 1), places.select(dim, k - 1)
    return (value.unsqueeze(dim), place.unsqueeze(dim)) if keepdim else (value, place)


def nanmedian(values: torch.Tensor) -> torch.Tensor:
    return nanmedian_dim(values.flatten(), 0)[0]


def nanmedian_dim(
    values: torch.Tensor, dim: int, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """The lower median of what is no NaN; NaN where there is nothing else."""
    if not values.is_floating_point():
        return median_dim(values, dim, keepdim)
    missing = torch.isnan(values)
    count = torch.logical_not(missing).sum(dim, keepdim=True)
    ordered, places = torch.sort(torch.where(missing, torch.inf, values), dim)
    middle = torch.clamp((count - 1) // 2, min=0)
    value, place = torch.gather(ordered, dim, middle), torch.gather(places, dim, middle)
    value = torch.where(count == 0, torch.full_like(value, torch.nan), value)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


def mode(
    values: torch.Tensor, dim: int = -1, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """The smallest of the most frequent values, and where it stands last."""
    moved = values.movedim(dim, -1)
    counts = (moved[..., :, None] == moved[..., None, :]).sum(-1)
    frequent = counts == counts.amax(-1, keepdim=True)
    large = moved.amax(-1, keepdim=True)
    value = torch.where(frequent, moved, large).amin(-1, keepdim=True)
    places = torch.arange(moved.shape[-1]).expand_as(moved)
    place = torch.where(moved == value, places, -1).amax(-1, keepdim=True)
    if not keepdim:
        return value.squeeze(-1), place.squeeze(-1)
    return value.movedim(-1, dim), place.movedim(-1, dim)


def cummax(values: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    return _running_extreme(values, dim, largest=True)


def cummin(values: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    return _running_extreme(values, dim, largest=False)


def _running_extreme(
    values: torch.Tensor, dim: int, *, largest: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """A scan in log2(size) steps; of equal values the last counts, and a NaN wins."""
    if values.dim() == 0:
        return values.clone(), torch.zeros_like(values, dtype=torch.int64)
    moved = values.movedim(dim, -1)
    size = moved.shape[-1]
    if not isinstance(size, int):
        return _extremes_of_any_size(moved, dim, largest=largest)
    places = torch.arange(size).expand(moved.shape)
    step = 1
    while step < size:
        before, after = moved[..., : size - step], moved[..., step:]
        wins = after >= before if largest else after <= before
        if values.is_floating_point():
            wins = (wins & torch.logical_not(torch.isnan(before))) | torch.isnan(after)
        place = torch.where(wins, places[..., step:], places[..., : size - step])
        moved = torch.cat([moved[..., :step], torch.where(wins, after, before)], -1)
        places = torch.cat([places[..., :step], place], -1)
        step *= 2
    return moved.movedim(-1, dim), places.movedim(-1, dim)


def _extremes_of_any_size(
    moved: torch.Tensor, dim: int, *, largest: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same by comparing every place with all before it: the steps cannot be counted."""
    places = torch.arange(moved.shape[-1])
    seen = places[:, None] >= places
    before = moved[..., None, :]
    reduce = torch.amax if largest else torch.amin
    first = moved[..., None, :1]  # has been seen everywhere
    best = reduce(torch.where(seen, before, first), -1)
    hits = (before == best[..., None]) | (before != before)
    place = torch.where(seen & hits, places, -1).amax(-1)
    return best.movedim(-1, dim), place.movedim(-1, dim)


_aten = torch.ops.aten
TABLE: Table = {
    _aten.argmax.default: argmax,
    _aten.argmin.default: argmin,
    _aten.bucketize.Scalar: bucketize,
    _aten.bucketize.Tensor: bucketize,
    _aten.cummax.default: cummax,
    _aten.cummin.default: cummin,
    _aten.histc.default: histc,
    _aten.kthvalue.default: kthvalue,
    _aten.max.dim: max_dim,
    _aten.median.default: median,
    _aten.median.dim: median_dim,
    _aten.min.dim: min_dim,
    _aten.mode.default: mode,
    _aten.nanmedian.default: nanmedian,
    _aten.nanmedian.dim: nanmedian_dim,
    _aten.searchsorted.Scalar: searchsorted,
    _aten.searchsorted.Tensor: searchsorted,
    _aten.sort.stable: sort_stable,
    _aten.topk.default: topk,
}
