"""Any GPU with a Vulkan driver, through SPIR-V.

The portable baseline has neither 64-bit integers nor doubles. IREE emulates the
integers exactly where it can (lookups, reductions) and refuses the rest (vectorised
arithmetic), so nothing that touches them is placed there; demoting them to 32 bits
would change the program. Desktop GPUs have both.
"""

from lemurc.targets.base import Architecture, DeviceModel, Target

_DESKTOP_ILLEGAL = ("complex<f32>", "complex<f64>")


def _desktop(name: str, *aliases: str) -> Architecture:
    return Architecture(name, (f"--iree-vulkan-target={name}",), aliases, _DESKTOP_ILLEGAL)


def _mobile(name: str, *aliases: str) -> Architecture:
    return Architecture(name, (f"--iree-vulkan-target={name}",), aliases)


NO_MULTI_USE_FUSION = "--iree-dispatch-creation-fuse-multi-use=false"
"""A residual sum fused into the layer norm that reads it twice becomes vectors of 8 in
IREE 3.13, which SPIR-V does not have."""


def architecture_of(device: str) -> str:
    """The architecture to compile for, from the name a Vulkan driver gives its device."""
    for word, arch in (
        ("llvmpipe", "llvmpipe"),
        ("RTX 30", "ampere"),
        ("RTX 40", "ada"),
        ("RX 6", "rdna2"),
        ("RX 7", "rdna3"),
        ("Adreno", "adreno"),
        ("Mali-G7", "valhall4"),
    ):
        if word in device:
            return arch
    return "baseline"


def _resolve(name: str) -> str:
    return architecture_of(_first_device()) if name in ("host", "native") else name


def _first_device() -> str:
    try:
        import iree.runtime

        devices = iree.runtime.get_driver("vulkan").query_available_devices()
    except (ImportError, RuntimeError):
        return ""
    return str(devices[0]["name"]) if devices else ""


TARGET = Target(
    name="vulkan",
    aliases=("spirv", "vulkan-spirv"),
    backend="vulkan-spirv",
    driver="vulkan",
    architectures=(
        Architecture("baseline", (), ("generic", "portable")),
        _desktop("llvmpipe", "lavapipe"),
        _desktop("rdna3", "rx7900xtx"),
        _desktop("rdna2"),
        _desktop("ampere", "rtx3090"),
        _desktop("ada", "rtx4090"),
        _mobile("valhall4"),
        _mobile("adreno"),
    ),
    default=("host",),
    model=DeviceModel(
        flops={"f32": 5.0e12, "f16": 5.0e12, "i8": 5.0e12},
        bandwidth=2.5e11,
        launch=3.0e-5,
        memory=8 << 30,
    ),
    illegal_types=("i64", "ui64", "f64", "complex<f32>", "complex<f64>"),
    required=(NO_MULTI_USE_FUSION,),
    resolve=_resolve,
    # IREE 3.13 cannot bufferize it for SPIR-V.
    fused_attention=False,
    fused_reductions=False,
    lacks=("dynamic-softmax", "empty-tensors", "f64-functions"),
)
