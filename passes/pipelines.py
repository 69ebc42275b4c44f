"""The compiler's order, top to bottom. A step is one of our passes or upstream text."""

from collections.abc import Sequence

from lemurc.passes.annotate_cost import AnnotateCost
from lemurc.passes.chunk import Chunk
from lemurc.passes.explain_placement import ExplainPlacement
from lemurc.passes.fold_batch_norm import FoldBatchNorm
from lemurc.passes.form_stages import FormStages
from lemurc.passes.fuse import Fuse
from lemurc.passes.hoist_parameters import HoistParameters
from lemurc.passes.keep_order import KeepOrder
from lemurc.passes.micro_batch import MicroBatch
from lemurc.passes.outline_stages import OutlineStages
from lemurc.passes.place import Place
from lemurc.passes.schedule import Schedule
from lemurc.passes.simplify import Simplify
from lemurc.passes.split_weights import SplitWeights
from lemurc.passes.textual import Step


def lower_torch() -> list[Step]:
    """Level T to level L."""
    from lemurc.passes import lower_torch

    return list(lower_torch.lower_torch())


def optimize(level: int = 2, explain: bool = False) -> list[Step]:
    """Level L to level L, for every target at once; level 0 does what later passes need.

    `explain` notes on operations why they are not fused with others.
    """
    if level == 0:
        return [Simplify(), AnnotateCost()]
    return [
        Simplify(),
        FoldBatchNorm(),
        HoistParameters(),  # what folding computes from weights leaves the run time
        Simplify(),
        Fuse(explain=explain),  # last: simplification does not look into groups
        AnnotateCost(),  # names values, so it comes after everything that makes new ones
    ]


def partition(
    objective: str = "latency",
    time_limit: float = 2.0,
    order: str = "memory",
    largest: int | None = None,
    explain: Sequence[str] = (),
    splits: Sequence[str] = (),
    micro_batches: int = 1,
) -> list[Step]:
    """Level L to level S for the devices of the module's `lemur.system`.

    `largest` is the most operations that a stage may hold; `explain` are modules of the model
    whose placement is explained; `splits` what the user wants split, as `GLOB=PARTS`;
    `micro_batches` in how many parts a call is cut.
    """
    return [
        *([MicroBatch(micro_batches)] if micro_batches > 1 else []),
        Chunk(objective, time_limit),  # where values are too large
        SplitWeights(",".join(splits), objective, time_limit),  # so that there is a placement
        Place(objective, time_limit, explain=bool(explain)),
        *([ExplainPlacement(",".join(explain), objective)] if explain else []),
        FormStages(largest=largest or 0),
        Schedule(order),  # stages must exist: it orders them, and what is inside
        *([KeepOrder()] if order == "memory" else []),
        OutlineStages(),
    ]
