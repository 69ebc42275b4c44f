"""What a model is as StableHLO: from lemurc's level T, by the passes that torch-mlir bundles.

    python to_stablehlo.py FOLDER net.py:build     # one model
    python to_stablehlo.py FOLDER                  # the expressions of `lemurc conformance`

writes for each model FOLDER/NAME/module.mlir, module.stablehlo (a portable artifact, which XLA of
other versions reads) and call.npz: the arguments of `main` in order, and what eager answers.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401
import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as stablehlo
from torch_mlir.passmanager import PassManager

from lemurc.dialects.context import new_context
from lemurc.errors import LemurcError
from lemurc.frontend.load import load

DECOMPOSE = (
    "torchdynamo-export-to-torch-backend-pipeline{backend-legal-ops=aten.dot,aten.mm,aten.linear}"
)
CONVERT = "torch-backend-to-stablehlo-backend-pipeline"
REST = "func.func(shape-legalize-to-stablehlo),canonicalize"
"""What is left of `arith`, `tensor` and `shape`, where StableHLO has the like."""
KINDS = ("lemur.input", "lemur.param", "lemur.state", "lemur.output", "lemur.state_update")
KINDS += ("lemur.input_update", "lemur.checks")
VERSION = "1.9.0"
"""Of StableHLO: every consumer of this version or a later one reads what is written."""


def convert(level_t: bytes) -> tuple[str, list[str], list[str]]:
    """StableHLO as text, and what each argument and result of `main` is to lemurc."""
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse(level_t)
        PassManager.parse(f"builtin.module({DECOMPOSE},{CONVERT},{REST})").run(module.operation)
        _mend(module)
        (main,) = (op for op in module.body.operations if op.name.value == "main")
        arguments = _taken(main.operation, "arg_attrs")
        results = _taken(main.operation, "res_attrs")
        return str(module), arguments, results


def _mend(module: ir.Module) -> None:
    """Two things the passes leave: constants of `arith`, and booleans compared as signed."""
    found: list[ir.Operation] = []

    def visit(operation: ir.Operation) -> ir.WalkResult:
        found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for operation in found:
        if operation.name == "arith.constant" and "tensor" in str(operation.results[0].type):
            value = operation.attributes["value"]
            with ir.InsertionPoint(operation), operation.location:
                made = ir.Operation.create(
                    "stablehlo.constant",
                    results=[operation.results[0].type],
                    attributes={"value": value},
                )
            operation.results[0].replace_all_uses_with(made.results[0])
            operation.erase()
        elif operation.name == "stablehlo.compare" and "xi1>" in str(operation.operands[0].type):
            unsigned = ir.Attribute.parse("#stablehlo<comparison_type UNSIGNED>")
            operation.attributes["compare_type"] = unsigned


def portable(text: str) -> bytes:
    with ir.Context() as context:
        stablehlo.register_dialect(context)
        return bytes(stablehlo.serialize_portable_artifact_str(text, VERSION))


def _taken(function: ir.Operation, name: str) -> list[str]:
    """XLA knows nothing of the attributes by which lemurc says what an argument is."""
    if name not in function.attributes:
        return []
    described = []
    for item in function.attributes[name]:
        (kind,) = (key for key in KINDS if key in item)
        described.append(f"{kind} {item[kind].value}")
    del function.attributes[name]
    return described


def write(program: Any, folder: Path) -> None:
    text, arguments, results = convert(program.mlir)
    inputs = program.examples["main"]
    call = {
        f"argument{n}": _argument(said, program.weights, inputs) for n, said in enumerate(arguments)
    }
    answers = program.reference["main"](inputs)[: len(results)]
    call |= {f"result{n}": answer for n, answer in enumerate(answers)}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "module.mlir").write_text(text)
    (folder / "module.stablehlo").write_bytes(portable(text))
    # NumPy stores no bfloat16: bytes and the name of the type, by the name of the array
    kinds = {f"{name}.dtype": np.array(str(array.dtype)) for name, array in call.items()}
    raw = {name: np.atleast_1d(array).view(np.uint8) for name, array in call.items()}
    shapes = {f"{name}.shape": np.array(array.shape, int) for name, array in call.items()}
    np.savez(folder / "call.npz", **raw, **kinds, **shapes)
    print(f"{folder.name}: {len(arguments)} arguments, {len(results)} results")


def _argument(said: str, weights: dict[str, Any], inputs: list[Any]) -> Any:
    kind, _, name = said.partition(" ")
    return inputs[int(name)] if kind == "lemur.input" else weights[name]


def _suite() -> Iterator[tuple[str, Any]]:
    from lemurc.tools.conformance import _all
    from lemurc.tools.conformance_cases.case import Expression, Function

    for name, case in _all():
        if isinstance(case, Expression):
            shapes = case.dynamic
            yield (
                name.replace("/", "-"),
                load(Function(case.function), case.calls[0], dynamic_shapes=shapes),
            )


def main(folder: Path, models: list[str]) -> None:
    programs = ((Path(model.split(":")[0]).stem, load(model)) for model in models)
    refused = 0
    for name, program in programs if models else _suite():
        try:
            write(program, folder / name)
        except (ir.MLIRError, ValueError, LemurcError) as error:
            refused += 1
            said = [line for line in str(error).splitlines() if "error:" in line] or [str(error)]
            print(f"{name}: refused: {said[0].strip()[:160]}")
    print(f"{refused} refused")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
