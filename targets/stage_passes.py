"""What a stage goes through for one architecture around `lower-to-iree`."""

from typing import Any

from lemurc.targets.base import Select, Target
from lemurc.targets.decompose_attention import decompose_attention
from lemurc.targets.exact_scalars import exact_scalars
from lemurc.targets.guard_attention import guard_attention
from lemurc.targets.lower_to_iree import walk
from lemurc.targets.part_reductions import part_reductions
from lemurc.targets.step_products import step_products
from lemurc.targets.step_reductions import step_reductions
from lemurc.targets.unpack_weights import UnpackWeights


def last_passes(target: Target) -> Select:
    """What `target` needs of a stage that is IREE's input already."""

    def run(module: Any) -> None:
        if not target.fused_reductions:
            step_reductions(walk(module))
            part_reductions(walk(module))
        if not target.fused_products:
            step_products(walk(module))
        if not target.exact_scalars:
            exact_scalars(walk(module))

    return run


def stage_passes(
    target: Target, arch: str, packed: tuple[str, ...] = (), *, kernels: bool = True
) -> Select:
    """The passes of `target`, in order, as one; without `kernels` IREE makes all code.

    `packed` are the weights, "name@layout", that the artifact holds in a layout.
    """
    select = target.kernels(arch) if kernels else None

    def run(module: Any) -> None:
        if select is not None:
            select(module)
        decompose_attention(module, every=not target.fused_attention)
        guard_attention(module)
        if packed:
            UnpackWeights(packed).run(module)

    return run
