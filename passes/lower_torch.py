"""Level `torch` to level `linalg`: what torch-mlir does, between passes of ours.

At the end the module holds `linalg`, `tm_tensor`, `tensor`, `arith` and calls to
composites; argument and result attributes are as they were.
"""

from lemurc.passes.base import Pass
from lemurc.passes.bitcast_views import BitcastViews
from lemurc.passes.collapse_batch_matmul import CollapseBatchMatmul
from lemurc.passes.convert_torch import ConvertTorch
from lemurc.passes.expand_remainders import ExpandRemainders
from lemurc.passes.fill_constants import FillConstants
from lemurc.passes.finish_lowering import FinishLowering
from lemurc.passes.fold_constant_casts import FoldConstantCasts
from lemurc.passes.keep_roundings import KeepRoundings
from lemurc.passes.keep_zero_signs import KeepZeroSigns
from lemurc.passes.normalize_torch import NormalizeTorch
from lemurc.passes.outline_composites import OutlineComposites
from lemurc.passes.outline_host_ops import OutlineHostOps
from lemurc.passes.raise_patterns import RaisePatterns
from lemurc.passes.sort_nan_last import SortNanLast
from lemurc.passes.thread_random_state import ThreadRandomState
from lemurc.passes.trim_windows import TrimWindows


def lower_torch(*, host_ops: bool = False, strict: bool = False) -> list[Pass | str]:
    """The steps, in order; a string is a pass of MLIR's or torch-mlir's.

    With `host_ops` PyTorch runs what nothing lowers; `strict` refuses that by name.
    """
    return [
        RaisePatterns(),  # what models write out by hand gets its name
        NormalizeTorch(),  # spellings that torch-mlir would crash on or refuse
        BitcastViews(),  # torch-mlir refuses them
        *([OutlineHostOps(strict)] if host_ops else []),  # before composites hide them
        OutlineComposites(),  # meaning becomes calls, before anything decomposes
        ConvertTorch(),  # torch-mlir's own lowering, or every operation it cannot do
        KeepZeroSigns(),  # torch-mlir's relu drops them
        FillConstants(),  # IREE confuses the results of torch-mlir's form
        SortNanLast(),  # torch-mlir's order leaves NaN where it stands
        ExpandRemainders(),  # IREE links none of f64, and those of SPIR-V are wrong
        ThreadRandomState(),  # no globals, which stages could not share
        CollapseBatchMatmul(),  # before cleaning up: it leaves broadcasts of weights unread
        "func.func(canonicalize,cse)",
        TrimWindows(),  # after it: the sizes of what was padded are constants now
        FoldConstantCasts(),  # no f64 that the model did not ask for
        KeepRoundings(),  # IREE drops those to bf16
        FinishLowering(),  # refuse what torch-mlir got wrong without a word
    ]
