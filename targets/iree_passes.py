"""The passes that work in IREE's bindings, by name, for `lemurc opt` and tests.

They meet the other passes in text only, so a pipeline holds these or those, not both.
"""

import re
from collections.abc import Callable
from typing import Any

from lemurc.errors import UsageError
from lemurc.targets import lower_to_iree
from lemurc.targets.decompose_attention import decompose_attention
from lemurc.targets.exact_scalars import exact_scalars
from lemurc.targets.guard_attention import guard_attention
from lemurc.targets.part_reductions import part_reductions
from lemurc.targets.select_kernels import SelectKernels
from lemurc.targets.step_products import step_products
from lemurc.targets.step_reductions import step_reductions
from lemurc.targets.unpack_weights import UnpackWeights

Step = Callable[[Any], object]


def _lower() -> Step:
    return lower_to_iree.lower


def _select(arch: str = "x86-64-v3") -> Step:
    return SelectKernels(arch).run


def _decompose_attention() -> Step:
    return decompose_attention


def _guard_attention() -> Step:
    return guard_attention


def _part_reductions() -> Step:
    return lambda module: part_reductions(lower_to_iree.walk(module))


def _exact_scalars() -> Step:
    return lambda module: exact_scalars(lower_to_iree.walk(module))


def _step_products() -> Step:
    return lambda module: step_products(lower_to_iree.walk(module))


def _step_reductions() -> Step:
    return lambda module: step_reductions(lower_to_iree.walk(module))


def _unpack(weights: str = "") -> Step:
    return UnpackWeights(tuple(weights.split("+"))).run


IREE_PASSES: dict[str, Callable[..., Step]] = {
    "decompose-attention": _decompose_attention,
    "exact-scalars": _exact_scalars,
    "guard-attention": _guard_attention,
    "lower-to-iree": _lower,
    "part-reductions": _part_reductions,
    "select-kernels": _select,
    "step-products": _step_products,
    "step-reductions": _step_reductions,
    "unpack-weights": _unpack,
}


def run_text(pipeline: str, source: str) -> str:
    """Runs e.g. `select-kernels{arch=x86-64-v3},lower-to-iree` over one stage, as text."""
    from iree.compiler import ir

    steps = [_step(text.strip()) for text in re.split(r",(?![^{]*})", pipeline)]
    context = ir.Context()
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown():
        outer = ir.Module.parse(source)
        module = lower_to_iree.stage_module(outer)
        for step in steps:
            step(module)
        module.verify()
        return str(module.get_asm(large_elements_limit=16))


def _step(text: str) -> Step:
    found = re.fullmatch(r"([\w-]+)(?:\{(.*)\})?", text)
    name, options = found.groups() if found else (text, None)
    if name not in IREE_PASSES:
        raise UsageError(
            f"no pass of the IREE level is called '{name}'",
            code="unknown-pass",
            hint=f"there are: {', '.join(IREE_PASSES)}",
        )
    pairs = dict(option.split("=", 1) for option in (options or "").split())
    return IREE_PASSES[name](**pairs)
