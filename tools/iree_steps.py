"""The passes on IREE's level, for `lemurc opt`: they come last in a pipeline.

They work on `iree.compiler.ir`, which shares nothing with torch-mlir's bindings, so the
module crosses over as text and the result is text.
"""

from collections.abc import Sequence

from lemurc.passes.textual import Step
from lemurc.targets.iree_passes import IREE_PASSES, run_text


def split(pipeline: Sequence[Step]) -> tuple[list[Step], list[str]]:
    """The steps before the first of ours on IREE's level, and the rest."""
    for index, step in enumerate(pipeline):
        if isinstance(step, str) and step.partition("{")[0] in IREE_PASSES:
            return list(pipeline[:index]), [str(item) for item in pipeline[index:]]
    return list(pipeline), []


def run(generic_text: str, steps: Sequence[str]) -> str:
    """Apply `steps` to one stage module; `generic_text` is its generic form."""
    return run_text(",".join(steps), generic_text) + "\n"
