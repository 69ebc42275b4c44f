"""AMD GPUs. Modules hold machine code of exactly one architecture."""

from lemurc.targets.base import Architecture, DeviceModel, Target
from lemurc.targets.machine_code import check_code_objects


def _arch(name: str, *aliases: str) -> Architecture:
    return Architecture(name, (f"--iree-rocm-target={name}",), aliases)


TARGET = Target(
    name="rocm",
    aliases=("amd", "hip", "amdgpu"),
    backend="rocm",
    driver="hip",
    architectures=(
        _arch("gfx90a", "mi210", "mi250", "mi250x", "cdna2"),
        _arch("gfx942", "mi300a", "mi300x", "mi325x", "cdna3"),
        _arch("gfx950", "mi350x", "mi355x", "cdna4"),
        _arch("gfx1100", "rx7900xt", "rx7900xtx", "w7900", "rdna3"),
        _arch("gfx1101", "rx7800xt"),
        _arch("gfx1201", "rx9070xt", "rdna4"),
    ),
    default=("gfx90a", "gfx942", "gfx1100"),
    model=DeviceModel(
        # One die of an MI250X.
        flops={"f32": 2.4e13, "f64": 2.4e13, "f16": 1.9e14, "bf16": 1.9e14, "i8": 1.9e14},
        bandwidth=1.6e12,
        launch=8.0e-6,
        memory=64 << 30,
    ),
    # IREE 3.13 lowers buffer fat pointers with a recursion that may exhaust the stack.
    retry=("--iree-rocdl-enable-buffer-instructions=false",),
    check=check_code_objects,
)
