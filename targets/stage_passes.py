"""What a stage goes through for one architecture before `lower-to-iree`."""

from typing import Any

from lemurc.targets.base import Select, Target
from lemurc.targets.decompose_attention import decompose_attention
from lemurc.targets.guard_attention import guard_attention
from lemurc.targets.unpack_weights import UnpackWeights


def stage_passes(
    target: Target, arch: str, packed: tuple[str, ...] = (), *, kernels: bool = True
) -> Select:
    """The passes of `target`, in order, as one; without `kernels` IREE makes all code.

    `packed` are the weights, "name@layout", that the artifact holds in a layout.
    """
    select = target.kernels(arch) if kernels else None
    attention = guard_attention if target.fused_attention else decompose_attention

    def run(module: Any) -> None:
        if select is not None:
            select(module)
        attention(module)
        if packed:
            UnpackWeights(packed).run(module)

    return run
