"""What lemurc plans with: one processor core, and a compiler that is not IREE's."""

from importlib.metadata import version

from lemurc.targets.base import Architecture, Compiler, DeviceModel, Target

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
    compiler=Compiler(
        module="lemurc_mlir_jit.compiler",
        version=f"{version('lemurc-mlir-jit')} torch-mlir {version('torch-mlir')}",
    ),
)
