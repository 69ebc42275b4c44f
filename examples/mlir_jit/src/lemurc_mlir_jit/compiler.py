"""From a stage in linalg on tensors to an executable: `python -m lemurc_mlir_jit.compiler`.

The passes are those that torch-mlir ships. A result is memory of its own that the caller
frees: buffer deallocation copies what a function would return of its arguments or constants.
"""

import argparse
import io
import sys
from pathlib import Path

from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.passmanager import PassManager

from lemurc_mlir_jit.executable import Executable

DTYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "i1": "bool",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
}
BOUNDARY = "bufferize-function-boundaries=1 function-boundary-type-conversion=identity-layout-map"

TENSORS_TO_BUFFERS = (
    "func.func(linalg-fuse-elementwise-ops)",
    "eliminate-empty-tensors",
    f"one-shot-bufferize{{{BOUNDARY}}}",
)
SORTS_TO_BUFFERS = (
    "func.func(tm-tensor-bufferize)",
    # what the pass above made of tm_tensor is no part of an analysis
    f"one-shot-bufferize{{{BOUNDARY} copy-before-write=1}}",
    "func.func(tm-tensor-to-loops)",
)
BUFFERS_TO_LLVM = (
    "buffer-deallocation-pipeline",
    "convert-bufferization-to-memref",
    "func.func(refback-munge-memref-copy)",
    "func.func(convert-linalg-to-loops)",
    "func.func(expand-strided-metadata)",
    "lower-affine",
    "convert-scf-to-cf",
    "canonicalize",
    "cse",
    "memref-expand",
    "arith-expand",
    "convert-complex-to-libm",
    "convert-complex-to-standard",
    "func.func(math-extend-to-supported-types{extra-types=f64 target-type=f32})",
    "func.func(convert-math-to-llvm)",
    # before there are declarations of the C library's functions, which have no wrapper
    "func.func(llvm-request-c-wrappers)",
    "convert-math-to-libm",
    "convert-complex-to-llvm",
    "finalize-memref-to-llvm",
    "convert-arith-to-llvm",
    "convert-index-to-llvm",
    "convert-func-to-llvm",
    "convert-cf-to-llvm",
    "reconcile-unrealized-casts",
)


def compile(stage: bytes) -> bytes:
    """The executable of `stage`, MLIR bytecode of one module with a function `@run`."""
    with ir.Context() as context, ir.Location.unknown():
        torch_dialect.register_dialect(context)
        # loads tm_tensor, which has no registration of its own
        _run(ir.Module.create(), ("func.func(convert-torch-to-tmtensor)",))
        module = ir.Module.parse(stage)
        (function,) = module.body.operations
        kind = function.type
        arguments = tuple(DTYPES[str(each.element_type)] for each in kind.inputs)
        results = tuple((DTYPES[str(each.element_type)], each.rank) for each in kind.results)
        writable = ir.DictAttr.get({"bufferization.writable": ir.BoolAttr.get(False)})
        function.operation.attributes["arg_attrs"] = ir.ArrayAttr.get([writable] * len(arguments))
        sorts = "tm_tensor." in str(module)
        _run(module, SORTS_TO_BUFFERS if sorts else TENSORS_TO_BUFFERS)
        _run(module, BUFFERS_TO_LLVM)
        # bytecode keeps the order of uses, which is another in each run, and text does not
        module = ir.Module.parse(str(module))
        stream = io.BytesIO()
        module.operation.write_bytecode(stream)
    return Executable(arguments, results, stream.getvalue()).encode()


def _run(module: ir.Module, passes: tuple[str, ...]) -> None:
    PassManager.parse(f"builtin.module({','.join(passes)})").run(module.operation)


def main() -> int:
    parser = argparse.ArgumentParser(prog="lemurc_mlir_jit.compiler")
    parser.add_argument("stage", type=Path)
    parser.add_argument("-o", dest="output", type=Path, required=True)
    given = parser.parse_args()
    try:
        executable = compile(given.stage.read_bytes())
    except (ir.MLIRError, KeyError) as error:
        print(f"error: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1
    given.output.write_bytes(executable)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
