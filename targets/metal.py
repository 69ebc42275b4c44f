"""Apple GPUs. Modules hold Metal source, compiled by the driver when they load."""

from lemurc.targets.base import Architecture, DeviceModel, Target
from lemurc.targets.vulkan import NO_MULTI_USE_FUSION

TARGET = Target(
    name="metal",
    aliases=("apple", "mps", "metal-spirv"),
    backend="metal-spirv",
    driver="metal",
    architectures=(Architecture("macos", (), ("generic",)),),
    default=("macos",),
    model=DeviceModel(
        flops={"f32": 5.0e12, "f16": 5.0e12, "i8": 5.0e12},
        bandwidth=2.0e11,
        launch=2.0e-5,
        memory=8 << 30,
    ),
    illegal_types=("f64", "complex<f64>"),
    required=(NO_MULTI_USE_FUSION,),
    # IREE 3.13 cannot bufferize it for SPIR-V.
    fused_attention=False,
    fused_reductions=False,
)
