"""What lemurc plans with: one processor core, and a compiler that is not IREE's."""

import hashlib
from importlib.metadata import version
from pathlib import Path

from lemurc.targets.base import Architecture, Compiler, DeviceModel, Target


def _version() -> str:
    """Of everything that decides an executable: the passes, and this package's choice of them."""
    folder = Path(__file__).parent
    sources = b"".join((folder / name).read_bytes() for name in ("compiler.py", "executable.py"))
    return f"{hashlib.sha256(sources).hexdigest()} torch-mlir {version('torch-mlir')}"


TARGET = Target(
    name="mlir_jit",
    backend="",
    driver="",
    architectures=(Architecture("llvm", ()),),
    default=("llvm",),
    model=DeviceModel(
        flops={"f32": 2.0e9, "f64": 2.0e9, "i8": 2.0e9},
        bandwidth=8.0e9,
        launch=1.0e-6,
        memory=8 << 30,
    ),
    compiler=Compiler(module="lemurc_mlir_jit.compiler", version=_version()),
)
