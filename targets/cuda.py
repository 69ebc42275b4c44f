"""NVIDIA GPUs. Modules hold PTX, so code for one architecture runs on every newer one."""

from lemurc.targets.base import Architecture, DeviceModel, Target
from lemurc.targets.machine_code import check_ptx


def _arch(name: str, *aliases: str) -> Architecture:
    return Architecture(name, (f"--iree-cuda-target={name}",), aliases)


TARGET = Target(
    name="cuda",
    aliases=("nvidia", "nvptx"),
    backend="cuda",
    driver="cuda",
    architectures=(
        _arch("sm_75", "t4", "turing"),
        _arch("sm_80", "a100", "ampere"),
        _arch("sm_86", "rtx3090", "a10"),
        _arch("sm_89", "ada", "l4", "l40", "rtx4090"),
        _arch("sm_120", "rtx5090"),
    ),
    default=("sm_80",),
    model=DeviceModel(
        # An A100: f32 without tensor cores, as IREE generates it for sm_80.
        flops={"f32": 1.95e13, "f64": 9.7e12, "f16": 3.12e14, "bf16": 3.12e14, "i8": 6.24e14},
        bandwidth=1.5e12,
        launch=5.0e-6,
        memory=40 << 30,
    ),
    # Not in the table of IREE 3.13; PTX of the newest older architecture runs there.
    same_as={
        "sm_87": "sm_86",
        "orin": "sm_86",
        "sm_90": "sm_89",
        "sm_90a": "sm_89",
        "h100": "sm_89",
        "h200": "sm_89",
        "hopper": "sm_89",
        "sm_100": "sm_89",
        "sm_100a": "sm_89",
        "b200": "sm_89",
        "blackwell": "sm_89",
    },
    check=check_ptx,
)
