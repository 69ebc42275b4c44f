"""Which operations of a model torch-mlir cannot lower: all of them, not the first.

The lowering stops at the first operation it fails on. Then every distinct operation of
the module is lowered alone, and those that fail are reported with their number, the
user's lines, and a way out.
"""

import re
from collections import defaultdict
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import func

from lemurc.dialects.locations import module_path, python_line
from lemurc.errors import UnsupportedModelError
from lemurc.passes.torch_constants import defining, dtype, is_constant_operation, is_tensor
from lemurc.passes.torch_mlir_lowering import torch_mlir_lowering

_WAYS_OUT = {
    "grouped_mm": 'call model.set_experts_implementation("batched_mm") before compiling',
    "aten.index.Tensor": "a boolean index has a result whose size depends on values: use "
    "torch.where with the mask",
    "aten.nonzero": "its result has a size that depends on values: use torch.where with a mask",
    "aten.masked_select": "its result has a size that depends on values: multiply by the mask",
    "aten.item": "a number read from a tensor cannot steer the program: keep it a tensor",
    "aten._fft_c2c": "apply the transform before the model, or as a matrix product",
    "aten.sort.stable": "use torch.sort without stable=True, or torch.topk",
}
_LINES_SHOWN = 5


def unsupported_operations(module: ir.Operation, message: str) -> UnsupportedModelError | None:
    """The error to show, or None when each operation lowers alone (then it is our bug)."""
    lines: dict[str, list[str]] = defaultdict(list)
    verdicts: dict[str, bool] = {}

    def visit(operation: ir.Operation) -> Any:
        if _is_computation(operation):
            key = _key(operation)
            if key not in verdicts:
                verdicts[key] = not is_hazard(operation) and _lowers_alone(operation)
            if not verdicts[key]:
                place = python_line(operation.location) or module_path(operation.location)
                lines[_spelled(operation)].append(place or "?")
        return ir.WalkResult.ADVANCE

    module.walk(visit)
    if not lines:
        named = re.search(r"failed to legalize operation '(torch\.[\w.]+)'", message)
        if named is None:
            return None
        lines[named[1]].append("?")
    listed = [
        f"{name} x{len(places)} at {_shortened(places)}" for name, places in sorted(lines.items())
    ]
    hints = [f"{name}: {way}" for key, way in _WAYS_OUT.items() for name in lines if key in name]
    return UnsupportedModelError(
        "the model uses operations that cannot be compiled:\n  " + "\n  ".join(listed),
        code="unsupported-ops",
        hint="; ".join(hints)
        or "rewrite these lines with other PyTorch operations, or leave "
        "them out of the compiled module and run them in eager mode",
    )


def is_hazard(operation: ir.Operation) -> bool:
    """Operations that torch-mlir neither lowers nor refuses in reasonable time."""
    if operation.name == "torch.aten.index.Tensor":
        indices = defining(operation.operands[1])
        return indices is not None and any(dtype(value) == "i1" for value in indices.operands)
    return operation.name in ("torch.aten.nonzero", "torch.aten.masked_select")


def _is_computation(operation: ir.Operation) -> bool:
    """What can be lowered alone: from tensors and constants to tensors."""
    if not operation.name.startswith("torch.") or is_constant_operation(operation):
        return False
    return all(is_tensor(result) for result in operation.results)


def _spelled(operation: ir.Operation) -> str:
    if operation.name == "torch.operator":
        return str(operation.attributes["name"].value).removeprefix("torch.")
    return str(operation.name).removeprefix("torch.")


def _shortened(places: list[str]) -> str:
    distinct = list(dict.fromkeys(places))
    more = len(distinct) - _LINES_SHOWN
    return ", ".join(distinct[:_LINES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _key(operation: ir.Operation) -> str:
    """Operations with one key lower alike: name, types and constant operands."""
    operands = [_operand_key(value) for value in operation.operands]
    results = [str(result.type) for result in operation.results]
    return f"{_spelled(operation)}({operands}) -> {results}"


def _operand_key(value: ir.Value) -> str:
    operation = defining(value)
    if operation is None or not is_constant_operation(operation):
        return str(value.type)
    inner = ",".join(_operand_key(item) for item in operation.operands)
    spelled = str(operation.attributes["value"]) if "value" in operation.attributes else ""
    return f"{operation.name}:{spelled}[{inner}]"


def _lowers_alone(operation: ir.Operation) -> bool:
    with operation.context, ir.Location.unknown():
        module = ir.Module.create()
        inputs: dict[ir.Value, None] = {}
        for value in operation.operands:
            _collect(value, inputs)
        types = [value.type for value in inputs]
        results = [result.type for result in operation.results if is_tensor(result)]
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("alone", ir.FunctionType.get(types, results))
            function.attributes["torch.assume_strict_symbolic_shapes"] = ir.UnitAttr.get()
            arguments = dict(zip(inputs, function.add_entry_block().arguments, strict=True))
        with ir.InsertionPoint(function.entry_block):
            copy = ir.Operation.create(
                operation.name,
                results=[result.type for result in operation.results],
                operands=[_rebuilt(value, arguments) for value in operation.operands],
                attributes={name: operation.attributes[name] for name in operation.attributes},
            )
            func.ReturnOp([result for result in copy.results if is_tensor(result)])
        try:
            torch_mlir_lowering().run(module.operation)
        except ir.MLIRError:
            return False
        return True


def _collect(value: ir.Value, inputs: dict[ir.Value, None]) -> None:
    operation = defining(value)
    if operation is None or not is_constant_operation(operation):
        inputs[value] = None
        return
    for operand in operation.operands:
        _collect(operand, inputs)


def _rebuilt(value: ir.Value, arguments: dict[ir.Value, ir.Value]) -> ir.Value:
    if value in arguments:
        return arguments[value]
    operation = defining(value)
    assert operation is not None
    copy = ir.Operation.create(
        operation.name,
        results=[result.type for result in operation.results],
        operands=[_rebuilt(operand, arguments) for operand in operation.operands],
        attributes={name: operation.attributes[name] for name in operation.attributes},
    )
    return copy.results[0]
