"""Operators of ONNX to operations of PyTorch, with all that torch-mlir cannot do said at once.

    torch.operator "onnx.Gemm"(%x, %w, %b)   ->   torch.aten.mm, torch.aten.add.Tensor

Converted operator by operator and no further: linear layers, norms and softmax are still
whole for the passes that follow. A conversion that fails leaves everything as it was; then
each operator is converted alone, with the constants it reads, to find those to name.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func
from torch_mlir.passmanager import PassManager

from lemurc.dialects.locations import module_path
from lemurc.errors import UnsupportedModelError
from lemurc.passes.base import Pass
from lemurc.passes.torch_constants import defining

_STEPS = "builtin.module(func.func(convert-torch-onnx-to-torch),func.func(canonicalize,cse))"
_NODES_SHOWN = 5
_META = "torch.onnx_meta."


@dataclass(frozen=True)
class ConvertOnnx(Pass):
    """Convert every operator; UnsupportedModelError lists those that cannot be."""

    name: ClassVar[str] = "convert-onnx"

    def run(self, module: ir.Operation) -> None:
        before = module.clone()
        try:
            PassManager.parse(_STEPS).run(module)
        except ir.MLIRError as error:
            refused = _refused(before)
            if refused is None:
                raise
            raise refused from error
        if any(_operators(module)):
            refused = _refused(before)
            assert refused is not None
            raise refused


def _operators(module: ir.Operation) -> Iterator[tuple[str, ir.Operation, ir.Operation]]:
    """The operators of ONNX, `Gemm`, with their functions."""
    for function in module.regions[0].blocks[0].operations:
        for operation in function.operation.regions[0].blocks[0].operations:
            if operation.operation.name == "torch.operator":
                name = str(operation.operation.attributes["name"].value)
                if name.startswith("onnx."):
                    yield name.removeprefix("onnx."), operation.operation, function.operation


def _refused(module: ir.Operation) -> UnsupportedModelError | None:
    nodes: dict[str, list[str]] = defaultdict(list)
    for name, operation, function in _operators(module):
        if name != "Constant" and not _converts_alone(operation, function):
            nodes[name].append(module_path(operation.location) or "?")
    if not nodes:
        return None
    listed = [
        f"{name} x{len(places)} at {_shown(places)}" for name, places in sorted(nodes.items())
    ]
    return UnsupportedModelError(
        "the model uses operators, or attributes or types of them, that torch-mlir does not "
        "convert:\n  " + "\n  ".join(listed),
        code="unsupported-ops",
        hint="export the model again with other operators, or from PyTorch with torch.export.save",
    )


def _shown(places: list[str]) -> str:
    distinct = list(dict.fromkeys(places))
    more = len(distinct) - _NODES_SHOWN
    return ", ".join(distinct[:_NODES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _converts_alone(operation: ir.Operation, function: ir.Operation) -> bool:
    with operation.context, ir.Location.unknown():
        module = ir.Module.create()
        inputs = [value for value in dict.fromkeys(operation.operands) if not _is_constant(value)]
        results = [result.type for result in operation.results]
        with ir.InsertionPoint(module.body):
            kind = ir.FunctionType.get([value.type for value in inputs], results)
            alone = func.FuncOp("alone", kind)
            for name in function.attributes:
                if name.startswith(_META):
                    alone.attributes[name] = function.attributes[name]
            taken = dict(zip(inputs, alone.add_entry_block().arguments, strict=True))
        with ir.InsertionPoint(alone.entry_block):
            for value in dict.fromkeys(operation.operands):
                if value not in taken:
                    taken[value] = _copied(defining(value), []).results[0]
            copy = _copied(operation, [taken[value] for value in operation.operands])
            func.ReturnOp(list(copy.results))
        try:
            PassManager.parse(_STEPS).run(module.operation)
        except ir.MLIRError:
            return False
        return not any(_operators(module.operation))


def _is_constant(value: ir.Value) -> bool:
    operation = defining(value)
    return operation is not None and not list(operation.operands)


def _copied(operation: Any, operands: list[ir.Value]) -> ir.Operation:
    return ir.Operation.create(
        operation.name,
        results=[result.type for result in operation.results],
        operands=operands,
        attributes={name: operation.attributes[name] for name in operation.attributes},
    )
