"""Keep the meaning of operations through the lowering: each becomes a call.

    %y = torch.aten.linear %x, %w, %b
      ->
    %y = call @linear_0(%x, %w, %b) {no_inline}
    func.func private @linear_0(%x, %w, %b) attributes {lemur.composite = "linear", no_inline} {
      %y = torch.aten.linear %x, %w, %b
      return %y
    }

torch-mlir's pipelines convert types across the call and lower the body, so that level
`linalg` has calls to choose kernels for, each with its exact reference lowering for
free. `lemur.operands` names the role of each argument; the other attributes are those
of passes/composites.py. Constants are cloned into the body; sizes known only at run
time become `!torch.int` arguments after the tensors.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func

from lemurc.dialects.locations import module_path
from lemurc.passes.base import Pass
from lemurc.passes.composites import Attributes, Kind, describe
from lemurc.passes.torch_constants import defining, is_constant_operation, is_tensor


@dataclass(frozen=True)
class OutlineComposites(Pass):
    """Give every operation in passes/composites.py a private function of its own."""

    name: ClassVar[str] = "outline-composites"

    def run(self, module: ir.Operation) -> None:
        body = module.regions[0].blocks[0]
        names = _fresh_names(body)
        for function in list(body.operations):
            if function.operation.name != "func.func" or is_composite(function.operation):
                continue
            for block in function.operation.regions[0].blocks:
                for operation in list(block.operations):
                    found = describe(operation.operation)
                    if found and _only_first_result_used(operation.operation):
                        _outline(operation.operation, found[0], found[1], body, names)


def is_composite(function: ir.Operation) -> bool:
    return "lemur.composite" in function.attributes


def attribute(value: Any) -> ir.Attribute:
    """A Python constant as the attribute passes read back with `.value`."""
    if isinstance(value, bool):
        return ir.BoolAttr.get(value)
    if isinstance(value, int):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
    if isinstance(value, float):
        return ir.FloatAttr.get(ir.F64Type.get(), value)
    if isinstance(value, str):
        return ir.StringAttr.get(value)
    if all(isinstance(item, int) for item in value):
        return ir.DenseI64ArrayAttr.get(value)
    return ir.ArrayAttr.get([attribute(item) for item in value])


def _fresh_names(body: ir.Block) -> Iterator[str]:
    taken = {
        operation.attributes["sym_name"].value
        for operation in body.operations
        if "sym_name" in operation.attributes
    }
    number = 0
    while True:
        if not any(name.endswith(f"_{number}") for name in taken):
            yield str(number)
        number += 1


def _only_first_result_used(operation: ir.Operation) -> bool:
    return all(not list(result.uses) for result in list(operation.results)[1:])


def _outline(
    operation: ir.Operation,
    kind: Kind,
    attributes: Attributes,
    body: ir.Block,
    names: Iterator[str],
) -> None:
    roles = {
        role: operation.operands[at]
        for role, at in kind.operands.items()
        if is_tensor(operation.operands[at])
    }
    sizes = list(dict.fromkeys(_run_time_sizes(operation.operands)))
    arguments = [*roles.values(), *sizes]
    result = operation.results[0]
    signature = ir.FunctionType.get([value.type for value in arguments], [result.type])
    with ir.InsertionPoint(body), operation.location:
        function = func.FuncOp(f"{kind.kind}_{next(names)}", signature, visibility="private")
        inside = list(function.add_entry_block().arguments)
    # by position, not by value: attention(x, x, x) keeps three arguments
    tensors = {kind.operands[role]: value for role, value in zip(roles, inside, strict=False)}
    numbers = dict(zip(sizes, inside[len(roles) :], strict=True))
    with ir.InsertionPoint(function.entry_block), operation.location:
        clone = ir.Operation.create(
            operation.name,
            results=[value.type for value in operation.results],
            operands=[
                tensors[at] if at in tensors else _cloned(value, numbers)
                for at, value in enumerate(operation.operands)
            ],
            attributes={named: operation.attributes[named] for named in operation.attributes},
        )
        func.ReturnOp([clone.results[0]])
        _mark(function.operation, kind, list(roles), attributes, operation.location)
    with ir.InsertionPoint(operation), operation.location:
        call = func.CallOp(function, arguments).operation
        call.attributes["no_inline"] = ir.UnitAttr.get()
    result.replace_all_uses_with(call.results[0])
    operation.erase()


def _mark(
    function: ir.Operation,
    kind: Kind,
    roles: list[str],
    attributes: Attributes,
    location: ir.Location,
) -> None:
    marks = {"composite": kind.kind, "module_path": module_path(location)} | attributes
    for name, value in marks.items():
        function.attributes[f"lemur.{name}"] = attribute(value)
    function.attributes["lemur.operands"] = ir.ArrayAttr.get([ir.StringAttr.get(r) for r in roles])
    function.attributes["no_inline"] = ir.UnitAttr.get()
    function.attributes["torch.assume_strict_symbolic_shapes"] = ir.UnitAttr.get()


def _run_time_sizes(values: Any) -> Iterator[ir.Value]:
    """Numbers under `values`, through lists, that are no constants."""
    for value in values:
        if is_tensor(value):
            continue
        operation = defining(value)
        if operation is not None and is_constant_operation(operation):
            yield from _run_time_sizes(operation.operands)
        else:
            yield value


def _cloned(value: ir.Value, numbers: dict[ir.Value, ir.Value]) -> ir.Value:
    if value in numbers:
        return numbers[value]
    operation = defining(value)
    assert operation is not None
    operands = [_cloned(operand, numbers) for operand in operation.operands]
    clone = ir.Operation.create(
        operation.name,
        results=[result.type for result in operation.results],
        operands=operands,
        attributes={name: operation.attributes[name] for name in operation.attributes},
        loc=operation.location,
    )
    return clone.results[0]
