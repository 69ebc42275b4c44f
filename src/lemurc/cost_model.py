"""How long work takes on a device, from figures of the device; docs/cost-model.md explains.

    t(operation) = slowdown * (correction * max(flops / (peak * fill), bytes / bandwidth) + launch)
    t(stage)     = slowdown * call + sum of t(operation) * (1 + (1 - 1/n) * (together - 1))

where the stage has n operations and `together` is of the kind of operation.

Plain data in and out: passes place by it, `bench` and the benchmarks check it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from math import ceil, exp, log
from operator import itemgetter

from lemurc.manifest import Workload

VECTOR_SHARE = 1 / 16
"""What arithmetic outside matrix products reaches of the rate of products in f32: on AVX2,
GELU, softmax and normalisations by IREE's code and our kernels run at 1/8 to 1/30 of it."""

_NEIGHBOURS = 4
_BLUR = 0.05
"""Distances below this, in logarithms, count alike: measurements are no better."""


@dataclass(frozen=True)
class Sample:
    """A measured operation: `seconds` of one execution, without what a call costs."""

    work: Workload
    seconds: float


@dataclass(frozen=True)
class Figures:
    """A device as the cost model sees it; rates are by element type.

    `launch` is the time of an operation that does nothing, `call` that of handing a stage
    over, `tile` the rows and columns that its matrix products work on at a time. `samples`
    are profiles; `together` is what operations of a kind, "*" of others, take in a stage of many,
    relative to what they take one by one.
    """

    flops: Mapping[str, float] = field(default_factory=lambda: {"f32": 1.0e11})
    bandwidth: Mapping[str, float] = field(default_factory=lambda: {"f32": 2.0e10})
    launch: float = 1.0e-5
    call: float = 3.0e-5
    slowdown: float = 1.0
    tile: tuple[int, int] = (8, 16)
    samples: tuple[Sample, ...] = ()
    together: Mapping[str, float] = field(default_factory=dict)


def stage_seconds(work: Iterable[Workload], figures: Figures) -> float:
    """One execution of a stage."""
    items = list(work)
    count = sum(item.count for item in items)
    operations = sum(
        item.count * seconds(item, figures) * _in_company(item.kind, count, figures)
        for item in items
    )
    return figures.slowdown * figures.call + operations


def _in_company(kind: str, count: int, figures: Figures) -> float:
    """What an operation takes among so many, relative to alone."""
    together = figures.together.get(kind, figures.together.get("*", 1.0))
    return 1 + company(count) * (together - 1)


def company(count: int) -> float:
    """How much of the effect of being together `count` operations show; 0 for one."""
    return 1 - 1 / count


def seconds(work: Workload, figures: Figures) -> float:
    """One execution of an operation by itself, without the call."""
    alone = correction(work, figures) * roofline(work, figures) + figures.launch
    return figures.slowdown * alone


def roofline(work: Workload, figures: Figures) -> float:
    """The time that arithmetic or memory takes, whichever is longer."""
    compute = work.flops / compute_rate(work, figures)
    moved = work.bytes_read + work.bytes_written
    return max(compute, moved / _rate(figures.bandwidth, work.dtype))


def compute_rate(work: Workload, figures: Figures) -> float:
    """Operations per second: the peak times how full the tiles of the product are, or, where
    there is no product, a share of the rate of f32."""
    if not work.shape:
        return _rate(figures.flops, "f32") * VECTOR_SHARE
    rows, columns, _ = work.shape
    fill = _fill(rows, figures.tile[0]) * _fill(columns, figures.tile[1])
    return _rate(figures.flops, work.dtype) * fill


def correction(work: Workload, figures: Figures) -> float:
    """What measured operations of this kind took, relative to the formula.

    The geometric mean over the nearest in work and shape, the nearer the weightier. A kind
    that nobody measured is corrected as those it shares its costliest part with.
    """
    for same in (_same_kind, _alike):
        near = nsmallest(
            _NEIGHBOURS,
            (
                (_distance(work, sample.work), sample)
                for sample in figures.samples
                if sample.work.dtype == work.dtype and same(work, sample.work)
            ),
            key=itemgetter(0),
        )
        if near:
            break
    else:
        return 1.0
    total = weighted = 0.0
    for distance, sample in near:
        weight = 1.0 / (_BLUR + distance) ** 2
        total += weight
        weighted += weight * log(_ratio(sample, figures))
    return exp(weighted / total)


def _ratio(sample: Sample, figures: Figures) -> float:
    """Measured against the formula, both without the launch."""
    expected = roofline(sample.work, figures)
    return max(sample.seconds - figures.launch, 0.05 * sample.seconds) / max(expected, 1e-12)


def _same_kind(work: Workload, other: Workload) -> bool:
    return other.kind == work.kind


def _alike(work: Workload, other: Workload) -> bool:
    """Both products of matrices, or both none."""
    return bool(other.shape) == bool(work.shape)


def _distance(work: Workload, other: Workload) -> float:
    """Between logarithms of what decides the time: work, bytes, and the shape of a product."""
    pairs = [
        (work.flops, other.flops),
        (work.bytes_read, other.bytes_read),
        (work.bytes_written, other.bytes_written),
    ]
    if len(work.shape) == len(other.shape):
        pairs += list(zip(work.shape, other.shape, strict=True))
    return sum(abs(log((a + 1) / (b + 1))) for a, b in pairs)


def _rate(rates: Mapping[str, float], dtype: str) -> float:
    """A type that is not listed runs as f32, or as the slowest where that is not either."""
    return rates.get(dtype) or rates.get("f32") or min(rates.values())


def _fill(size: int, tile: int) -> float:
    """The share of whole tiles that `size` rows or columns fill."""
    return size / (ceil(size / tile) * tile) if size else 1.0
