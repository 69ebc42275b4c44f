"""Which operations of level `torch` torch-mlir cannot lower, each tried alone.

The lowering of a module stops at the first operation it fails on, and does not say which.
Equal operations, by name, types and constant operands, are tried once.
"""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import func

from lemurc.passes.outline_composites import OutlineComposites
from lemurc.passes.torch_constants import defining, dtype, is_constant_operation, is_tensor
from lemurc.passes.torch_mlir_lowering import torch_mlir_lowering
from lemurc.passes.walking import operations


def unlowered(module: ir.Operation) -> list[ir.Operation]:
    """The operations between tensors that do not lower, in program order."""
    verdicts: dict[str, bool] = {}

    def fails(operation: ir.Operation) -> bool:
        if not _is_computation(operation):
            return False
        key = _key(operation)
        if key not in verdicts:
            verdicts[key] = is_hazard(operation) or not _lowers_alone(operation)
        return verdicts[key]

    return operations(module, fails)


def is_hazard(operation: ir.Operation) -> bool:
    """Operations that torch-mlir neither lowers nor refuses in reasonable time."""
    if operation.name == "torch.aten.index.Tensor":
        indices = defining(operation.operands[1])
        return indices is not None and any(dtype(value) == "i1" for value in indices.operands)
    return operation.name in ("torch.aten.nonzero", "torch.aten.masked_select")


def has_hazard(module: ir.Operation) -> bool:
    return bool(operations(module, is_hazard))


def _is_computation(operation: ir.Operation) -> bool:
    """What can be lowered alone: from tensors and constants to tensors."""
    if not operation.name.startswith("torch.") or is_constant_operation(operation):
        return False
    if len(operation.regions) > 0 or len(operation.results) == 0:
        return False
    return all(is_tensor(result) for result in operation.results)


def operator_of(operation: ir.Operation) -> ir.Operation:
    """The operation itself; of one that unpacks a list of tensors, the one that makes the list."""
    made = defining(operation.operands[0]) if operation.name == "torch.prim.ListUnpack" else None
    return operation if made is None else made


def operator_name(operation: ir.Operation) -> str:
    """`aten.index.Tensor`, `my_library.scale`: PyTorch's name, of operators in no registry too."""
    operation = operator_of(operation)
    if operation.name == "torch.operator":
        return str(operation.attributes["name"].value).removeprefix("torch.")
    return str(operation.name).removeprefix("torch.")


def _key(operation: ir.Operation) -> str:
    operands = [_operand_key(value) for value in operation.operands]
    results = [str(result.type) for result in operation.results]
    return f"{operator_name(operation)}({operands}) -> {results}"


def _operand_key(value: ir.Value) -> str:
    operation = _made_along(value)
    if operation is None:
        return str(value.type)
    inner = ",".join(_operand_key(item) for item in operation.operands)
    spelled = str(operation.attributes["value"]) if "value" in operation.attributes else ""
    return f"{operator_name(operation)}:{spelled}[{inner}]"


def _made_along(value: ir.Value) -> ir.Operation | None:
    """What makes a constant or a list, which is tried together with its reader."""
    operation = defining(value)
    if operation is None or is_constant_operation(operation):
        return operation
    return operation if str(value.type) == "!torch.list<vtensor>" else None


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
        return lowers(module.operation)


def lowers(module: ir.Operation) -> bool:
    """Whether all of `module`, which is spoilt by it, can be lowered; some only as composites."""
    OutlineComposites().run(module)
    try:
        torch_mlir_lowering().run(module)
    except ir.MLIRError:
        return False
    return True


def _collect(value: ir.Value, inputs: dict[ir.Value, None]) -> None:
    operation = _made_along(value)
    if operation is None:
        inputs[value] = None
        return
    for operand in operation.operands:
        _collect(operand, inputs)


def _rebuilt(value: ir.Value, arguments: dict[ir.Value, ir.Value]) -> Any:
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
