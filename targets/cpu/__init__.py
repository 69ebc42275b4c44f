"""CPUs, through IREE's LLVM back end; modules are ELF files that every OS loads."""

import platform
from pathlib import Path

from lemurc.targets.base import Architecture, DeviceModel, Select, StageTraits, Target

_X86_TRIPLE = "--iree-llvmcpu-target-triple=x86_64-unknown-linux-gnu"
_ARM_TRIPLE = "--iree-llvmcpu-target-triple=aarch64-unknown-linux-gnu"

_LEVELS = (
    ("x86-64-v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    ("x86-64-v3", {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}),
    ("x86-64-v2", {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}),
)
"""Names of /proc/cpuinfo that each level adds to those below it."""


def host_architecture(features: frozenset[str] | None = None) -> str:
    """The most capable architecture below that this machine (or `features`) has."""
    machine = platform.machine().lower()
    if features is None and machine in ("aarch64", "arm64"):
        return "aarch64"
    features = _cpu_features() if features is None else features
    required: set[str] = set()
    best = "x86-64"
    for level, added in reversed(_LEVELS):
        required |= added
        if required <= features:
            best = level
    return best


def _cpu_features() -> frozenset[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    flags = next((line for line in lines if line.startswith("flags")), ":")
    return frozenset(flags.split(":", 1)[1].split())


_STACK = "--iree-llvmcpu-stack-allocation-limit=131072"
"""IREE's default refuses what needs more than 32 KiB. Workers have far more; see
WORKER_STACK of runtime/devices.py. IREE's own tools run such code with --task_worker_stack_size."""

_NO_DEBUG = "--iree-llvmcpu-debug-symbols=false"
"""Debug information holds names of temporary files: equal stages would differ."""


_TILED = (
    "--iree-opt-data-tiling",
    "--iree-llvmcpu-enable-ukernels=all",
    "--iree-llvmcpu-matmul-tile-bytes=4194304",
)
"""Matmuls on packed operands, shared out in large pieces: 1.3 to 1.7 times the speed of
IREE's defaults on 128 x 768 x 3072, no difference on one row. IREE's x86 kernels for
packed operands start at AVX2: below it this takes 5 times as long as the defaults."""

_WITHOUT_AVX2 = ("x86-64", "x86-64-v2")

_IM2COL = "--iree-global-opt-use-im2col-for-convs"
"""With the above, 3x3 convolutions run 1.7 (64 channels) to 30 times (256) as fast, and
without AVX2 alone 5 times (ResNet-18)."""


def _tuning(arch: str, traits: StageTraits) -> tuple[str, ...]:
    kinds = traits.composites
    # With batches and sizes unknown IREE 3.13 fails to pack products or packs them wrong.
    unpackable = traits.dynamic_batches or (
        traits.dynamic and (kinds.get("attention") or kinds.get("conv"))
    )
    packs = arch not in _WITHOUT_AVX2 and not unpackable
    flags: tuple[str, ...] = ()
    if packs and any(kinds.get(kind) for kind in ("linear", "matmul", "conv")):
        flags += _TILED
    if kinds.get("conv"):
        flags += (_IM2COL,)
    return flags


def _kernels(arch: str) -> Select | None:
    from lemurc.targets.select_kernels import SelectKernels

    return SelectKernels(arch).run


def _resolve(name: str) -> str:
    return host_architecture() if name in ("host", "native") else name


TARGET = Target(
    name="cpu",
    aliases=("llvm-cpu", "local", "x86"),
    backend="llvm-cpu",
    driver="local-task",
    architectures=(
        Architecture("x86-64-v4", (_X86_TRIPLE, "--iree-llvmcpu-target-cpu=x86-64-v4"), ("v4",)),
        Architecture("x86-64-v3", (_X86_TRIPLE, "--iree-llvmcpu-target-cpu=x86-64-v3"), ("v3",)),
        Architecture("x86-64-v2", (_X86_TRIPLE, "--iree-llvmcpu-target-cpu=x86-64-v2"), ("v2",)),
        Architecture(
            "x86-64", (_X86_TRIPLE, "--iree-llvmcpu-target-cpu=x86-64"), ("baseline", "generic")
        ),
        Architecture("aarch64", (_ARM_TRIPLE, "--iree-llvmcpu-target-cpu=generic"), ("arm64",)),
    ),
    default=("x86-64-v3", "x86-64"),
    model=DeviceModel(
        flops={"f32": 1.5e11, "f64": 7.5e10, "f16": 5.0e10, "bf16": 5.0e10, "i8": 1.5e11},
        bandwidth=2.0e10,
        launch=1.0e-5,
        memory=16 << 30,
        call=3.0e-5,
        tile=(8, 16),
    ),
    required=(_STACK, _NO_DEBUG),
    tuning=_tuning,
    kernels=_kernels,
    resolve=_resolve,
    # At (1, 8, 128, 64) the pieces take 1 ms where IREE fused takes 45, or 8 where 125.
    fused_attention=False,
    fused_products=False,
)
