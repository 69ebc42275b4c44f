"""Every pass by name, imported when it is asked for."""

import difflib
import importlib

from lemurc.errors import UsageError
from lemurc.passes.base import Pass

PASSES = {
    "annotate-cost": "annotate_cost:AnnotateCost",
    "bitcast-views": "bitcast_views:BitcastViews",
    "chunk": "chunk:Chunk",
    "collapse-batch-matmul": "collapse_batch_matmul:CollapseBatchMatmul",
    "convert-onnx": "convert_onnx:ConvertOnnx",
    "convert-torch": "convert_torch:ConvertTorch",
    "expand-remainders": "expand_remainders:ExpandRemainders",
    "explain-placement": "explain_placement:ExplainPlacement",
    "fill-constants": "fill_constants:FillConstants",
    "finish-lowering": "finish_lowering:FinishLowering",
    "fold-batch-norm": "fold_batch_norm:FoldBatchNorm",
    "fold-constant-casts": "fold_constant_casts:FoldConstantCasts",
    "form-stages": "form_stages:FormStages",
    "fuse": "fuse:Fuse",
    "hoist-parameters": "hoist_parameters:HoistParameters",
    "keep-order": "keep_order:KeepOrder",
    "keep-roundings": "keep_roundings:KeepRoundings",
    "keep-zero-signs": "keep_zero_signs:KeepZeroSigns",
    "micro-batch": "micro_batch:MicroBatch",
    "normalize-torch": "normalize_torch:NormalizeTorch",
    "outline-composites": "outline_composites:OutlineComposites",
    "outline-host-ops": "outline_host_ops:OutlineHostOps",
    "outline-stages": "outline_stages:OutlineStages",
    "place": "place:Place",
    "raise-patterns": "raise_patterns:RaisePatterns",
    "schedule": "schedule:Schedule",
    "simplify": "simplify:Simplify",
    "sort-nan-last": "sort_nan_last:SortNanLast",
    "split-weights": "split_weights:SplitWeights",
    "thread-random-state": "thread_random_state:ThreadRandomState",
    "trim-windows": "trim_windows:TrimWindows",
    "verify-lemur": "verify_lemur:VerifyLemur",
}
"""Name -> module in `lemurc.passes` and class."""


def find(name: str) -> type[Pass] | None:
    """The class of our pass `name`; None when it is not one of ours."""
    if name not in PASSES:
        return None
    module, _, symbol = PASSES[name].partition(":")
    found: type[Pass] = getattr(importlib.import_module(f"lemurc.passes.{module}"), symbol)
    return found


def unknown(name: str) -> UsageError:
    """The error for a name that is neither ours nor upstream's."""
    near = difflib.get_close_matches(name, PASSES, 1)
    return UsageError(
        f"no pass is called '{name}'",
        code="unknown-pass",
        hint=f"did you mean '{near[0]}'?" if near else f"ours: {', '.join(PASSES)}",
    )
