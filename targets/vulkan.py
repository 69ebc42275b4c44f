"""Any GPU with a Vulkan driver, through SPIR-V.

The portable baseline has neither 64-bit integers nor doubles, so nothing that
touches them is placed on this target.
"""

from lemurc.targets.base import Architecture, DeviceModel, Target


def _arch(name: str, *aliases: str) -> Architecture:
    return Architecture(name, (f"--iree-vulkan-target={name}",), aliases)


TARGET = Target(
    name="vulkan",
    aliases=("spirv", "vulkan-spirv"),
    backend="vulkan-spirv",
    driver="vulkan",
    architectures=(
        Architecture("baseline", (), ("generic", "portable")),
        _arch("llvmpipe", "lavapipe"),
        _arch("rdna3", "rx7900xtx"),
        _arch("rdna2"),
        _arch("ampere", "rtx3090"),
        _arch("ada", "rtx4090"),
        _arch("valhall4"),
        _arch("adreno"),
    ),
    default=("baseline",),
    model=DeviceModel(
        flops={"f32": 5.0e12, "f16": 5.0e12, "i8": 5.0e12},
        bandwidth=2.5e11,
        launch=3.0e-5,
        memory=8 << 30,
    ),
    illegal_types=("i64", "ui64", "f64", "complex<f32>", "complex<f64>"),
)
