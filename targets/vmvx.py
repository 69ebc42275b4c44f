"""IREE's portable interpreter: slow, and runs wherever the runtime does."""

from lemurc.targets.base import Architecture, DeviceModel, Target

TARGET = Target(
    name="vmvx",
    aliases=("interpreter",),
    backend="vmvx",
    driver="local-task",
    architectures=(Architecture("generic", ()),),
    default=("generic",),
    model=DeviceModel(
        flops={"f32": 1.0e9, "f64": 1.0e9, "i8": 1.0e9},
        bandwidth=2.0e9,
        launch=1.0e-5,
        memory=16 << 30,
    ),
    # It computes with f64 but casts it to nothing, and has no arithmetic of 16 bits.
    illegal_types=("f64", "f16", "bf16"),
    fused_attention=False,
    exact_scalars=False,
    lacks=("dynamic-softmax",),
)
