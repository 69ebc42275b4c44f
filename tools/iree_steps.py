"""The passes on IREE's level, for `lemurc opt`: they come last in a pipeline.

They work on `iree.compiler.ir`, which shares nothing with torch-mlir's bindings, so the
module crosses over as text and the result is text.
"""

from collections.abc import Sequence

from lemurc.passes.textual import Step

NAMES = ("lower-to-iree", "select-kernels")


def split(pipeline: Sequence[Step]) -> tuple[list[Step], list[str]]:
    """The steps before the first of ours on IREE's level, and the rest."""
    for index, step in enumerate(pipeline):
        if isinstance(step, str) and step.partition("{")[0] in NAMES:
            return list(pipeline[:index]), [str(item) for item in pipeline[index:]]
    return list(pipeline), []


def run(generic_text: str, steps: Sequence[str]) -> str:
    """Apply `steps` to one stage module; `generic_text` is its generic form."""
    from iree.compiler import ir

    from lemurc.targets.lower_to_iree import lower, stage_module
    from lemurc.targets.select_kernels import SelectKernels

    context = ir.Context()
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown():
        outer = ir.Module.parse(generic_text)
        module = stage_module(outer)
        for step in steps:
            name, _, options = step.partition("{")
            if name == "select-kernels":
                SelectKernels(options.removesuffix("}").removeprefix("arch=")).run(module)
            else:
                lower(module)
        return str(module) + "\n"
