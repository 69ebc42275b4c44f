"""Run level `linalg` as it is: no passes of ours after the lowering, all on the CPU."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from lemurc.dialects.context import new_context
from lemurc.frontend.program import Array, Program
from lemurc.passes.base import Pass
from lemurc.passes.lower_torch import lower_torch

_COMPILE_SECONDS = 240


def lower(program: Program) -> ir.Module:
    """The module of `program` at level `linalg`."""
    return lower_bytecode(program.mlir)


def lower_bytecode(mlir: bytes) -> ir.Module:
    context = new_context()
    with context, ir.Location.unknown():
        module = ir.Module.parse(mlir, context)
        for step in lower_torch():
            if isinstance(step, Pass):
                step.run(module.operation)
            else:
                PassManager.parse(f"builtin.module({step})").run(module.operation)
        assert module.operation.verify()
        return module


def composites(module: ir.Module) -> Counter[str]:
    marked = (op for op in module.body.operations if "lemur.composite" in op.attributes)
    return Counter(op.attributes["lemur.composite"].value for op in marked)


class LoweredFunction:
    """One entry point of a lowered program, compiled by IREE and callable."""

    def __init__(self, program: Program, folder: Path, entry_point: str = "main") -> None:
        module = lower(program)
        function = next(
            op for op in module.body.operations if op.attributes["sym_name"].value == entry_point
        )
        self._weights = program.weights
        self.state = {name: program.weights[name] for name in program.state}
        self._arguments = [dict(_marks(entry)) for entry in function.attributes["arg_attrs"]]
        self._results = [dict(_marks(entry)) for entry in function.attributes["res_attrs"]]
        self._call = _compiled(_plain(module), folder, entry_point)

    def __call__(self, inputs: list[Array]) -> list[Array]:
        arguments = [self._argument(marks, inputs) for marks in self._arguments]
        values = self._call(arguments)
        outputs: dict[int, Array] = {}
        for marks, value in zip(self._results, values, strict=True):
            if "lemur.output" in marks:
                outputs[marks["lemur.output"]] = value
            elif "lemur.state_update" in marks:
                self.state[marks["lemur.state_update"]] = value
        return [outputs[index] for index in sorted(outputs)]

    def _argument(self, marks: dict[str, Any], inputs: list[Array]) -> Array:
        if "lemur.input" in marks:
            return inputs[marks["lemur.input"]]
        if "lemur.state" in marks:
            return self.state[marks["lemur.state"]]
        return self._weights[marks["lemur.param"]]


def _marks(entry: Any) -> Any:
    return ((named.name, getattr(named.attr, "value", None)) for named in ir.DictAttr(entry))


def _plain(module: ir.Module) -> str:
    """Composites inlined, nothing of `lemur` left."""

    def strip(operation: ir.Operation) -> Any:
        for name in [named for named in operation.attributes]:
            if name.startswith("lemur.") or name in ("no_inline", "arg_attrs", "res_attrs"):
                del operation.attributes[name]
        return ir.WalkResult.ADVANCE

    with module.context:
        module.operation.walk(strip)
        PassManager.parse("builtin.module(inline,symbol-dce,canonicalize,cse)").run(
            module.operation
        )
    return str(module)


def _compiled(text: str, folder: Path, entry_point: str) -> Any:
    import iree.runtime as rt

    source, binary = folder / "module.mlir", folder / "module.vmfb"
    source.write_text(text)
    command = [
        str(Path(sys.executable).parent / "iree-compile"),
        str(source),
        "-o",
        str(binary),
        "--iree-input-type=tm_tensor",
        "--iree-input-demote-f64-to-f32=false",
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu",
        "--iree-llvmcpu-target-cpu=host",
        "--iree-opt-level=O0",
    ]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
    try:
        _, errors = process.communicate(timeout=_COMPILE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert process.returncode == 0, errors[-4000:]
    config = rt.Config("local-sync")
    context = rt.SystemContext(config=config)
    context.add_vm_module(rt.VmModule.mmap(config.vm_instance, str(binary)))
    function = context.modules.module[entry_point]

    def call(arguments: list[Array]) -> list[Array]:
        results = function(*arguments)
        results = results if isinstance(results, (list, tuple)) else [results]
        return [np.array(result.to_host()) for result in results]

    return call


def assert_close(actual: list[Array], expected: list[Array], tolerance: float = 1e-4) -> None:
    """Relative to the largest value of each output, as lemurc's numeric policy says."""
    assert len(actual) == len(expected)
    for got, wanted in zip(actual, expected, strict=True):
        assert got.shape == wanted.shape
        if wanted.dtype.kind in "biu":
            np.testing.assert_array_equal(got.astype(wanted.dtype), wanted)
            continue
        wide, reference = got.astype(np.float64), wanted.astype(np.float64)
        scale = float(np.abs(reference).max(initial=0.0)) or 1.0
        assert float(np.abs(wide - reference).max(initial=0.0)) <= tolerance * scale
