"""Moving operations into a private function of their own: a composite.

    call @linear_0(%x, %w) {no_inline}
    func.func private @linear_0(%x, %w) attributes {lemur.composite = "linear", no_inline}

The body is the exact meaning of the call; the attributes are what a kernel needs to
know. `no_inline` keeps MLIR's inliner off both.
"""

from collections.abc import Callable, Iterator
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import func

from lemurc.dialects.locations import module_path
from lemurc.passes.attributes import attribute
from lemurc.passes.torch_constants import defining, is_constant_operation, is_tensor

Attributes = dict[str, Any]
Arguments = dict[str, ir.Value]
Cloned = Callable[[ir.Value], ir.Value]
Build = Callable[[Arguments, Cloned], ir.Value]
"""From the arguments by role, and a function that clones a constant into the body."""


class Outliner:
    """Makes composites in one module, with names that are not taken."""

    def __init__(self, module: ir.Operation) -> None:
        self._body = module.regions[0].blocks[0]
        self._taken = {
            operation.attributes["sym_name"].value
            for operation in self._body.operations
            if "sym_name" in operation.attributes
        }
        self._next = 0

    def outline(
        self,
        kind: str,
        roles: dict[str, ir.Value],
        attributes: Attributes,
        replaced: ir.Operation,
        constants: list[ir.Value],
        build: Build,
    ) -> None:
        """Put a call in place of the first result of `replaced`, which is then unused.

        `constants` are non-tensor operands that the body needs: what of them is known
        only at run time becomes an argument after the tensors.
        """
        result = replaced.results[0]
        sizes = list(dict.fromkeys(_run_time_sizes(constants)))
        arguments = [*roles.values(), *sizes]
        signature = ir.FunctionType.get([value.type for value in arguments], [result.type])
        with ir.InsertionPoint(self._body), replaced.location:
            function = func.FuncOp(self._fresh(kind), signature, visibility="private")
            inside = list(function.add_entry_block().arguments)
        by_role = dict(zip(roles, inside, strict=False))
        numbers = dict(zip(sizes, inside[len(roles) :], strict=True))
        with ir.InsertionPoint(function.entry_block), replaced.location:
            func.ReturnOp([build(by_role, lambda value: _cloned(value, numbers))])
        with replaced.location:
            _mark(function.operation, kind, list(roles), attributes)
        with ir.InsertionPoint(replaced), replaced.location:
            call = func.CallOp(function, arguments).operation
            call.attributes["no_inline"] = ir.UnitAttr.get()
        result.replace_all_uses_with(call.results[0])

    def _fresh(self, kind: str) -> str:
        while f"{kind}_{self._next}" in self._taken:
            self._next += 1
        self._next += 1
        return f"{kind}_{self._next - 1}"


def is_composite(function: ir.Operation) -> bool:
    return "lemur.composite" in function.attributes


def _attribute(value: Any) -> ir.Attribute:
    """What passes read back with `.value`, or, where it is a list of numbers, item by item."""
    is_numbers = isinstance(value, (list, tuple)) and not any(isinstance(v, str) for v in value)
    return ir.DenseI64ArrayAttr.get(value) if is_numbers else attribute(value)


def _mark(function: ir.Operation, kind: str, roles: list[str], attributes: Attributes) -> None:
    marks = {"composite": kind, "module_path": module_path(function.location), "operands": roles}
    for name, value in (marks | attributes).items():
        function.attributes[f"lemur.{name}"] = _attribute(value)
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
    return clone(operation, [_cloned(operand, numbers) for operand in operation.operands])


def clone(operation: ir.Operation, operands: list[ir.Value]) -> ir.Value:
    """The first result of a copy of `operation` with other operands, here."""
    copy = ir.Operation.create(
        operation.name,
        results=[result.type for result in operation.results],
        operands=operands,
        attributes={name: operation.attributes[name] for name in operation.attributes},
        loc=operation.location,
    )
    return copy.results[0]
