"""Drop what nothing uses: calls of composites and of operators on the host, the functions they
call, and weight arguments."""

from collections.abc import Mapping

from torch_mlir import ir

from lemurc.passes import graph as graphs
from lemurc.passes.host_calls import ATTRIBUTE, is_host_call


def erase_unused_calls(entry: ir.Operation, composites: Mapping[str, ir.Operation]) -> None:
    """They are pure, though a `func.call` does not say so to MLIR."""
    for op in reversed(list(entry.regions[0].blocks[0].operations)):
        pure = graphs.callee(op.operation) in composites or is_host_call(op.operation)
        if pure and not is_used(op.operation):
            op.operation.erase()


def erase_unused_composites(module: ir.Operation) -> None:
    """Composites, and operators on the host, that no entry or other function in use calls.

    MLIR's symbol-dce would also drop private functions that the driver calls.
    """
    functions = {graphs.symbol(op): op for op in graphs.functions(module)}
    keep: set[str] = set()

    def mark(function: ir.Operation) -> None:
        def visit(op: ir.Operation) -> ir.WalkResult:
            name = graphs.callee(op)
            if name in functions and name not in keep:
                keep.add(name)
                mark(functions[name])
            return ir.WalkResult.ADVANCE

        function.walk(visit)

    for function in functions.values():
        if not _is_callee(function):
            mark(function)
    for name, function in functions.items():
        if _is_callee(function) and name not in keep:
            function.erase()


def _is_callee(function: ir.Operation) -> bool:
    return "lemur.composite" in function.attributes or ATTRIBUTE in function.attributes


def erase_unused_weights(entry: ir.Operation) -> None:
    """Weight arguments without a use; inputs and state stay, callers pass them."""
    if "arg_attrs" not in entry.attributes:
        return
    block = entry.regions[0].blocks[0]
    attributes = list(entry.attributes["arg_attrs"])
    kept = []
    for number in reversed(range(len(block.arguments))):
        argument = block.arguments[number]
        if "lemur.param" in attributes[number] and next(iter(argument.uses), None) is None:
            block.erase_argument(number)
        else:
            kept.append(attributes[number])
    set_arguments(entry, kept[::-1])


def set_arguments(entry: ir.Operation, attributes: list[ir.Attribute]) -> None:
    """Make the function's type and argument attributes those of its block."""
    block = entry.regions[0].blocks[0]
    results = entry.attributes["function_type"].value.results
    kind = ir.FunctionType.get([value.type for value in block.arguments], results)
    entry.attributes["function_type"] = ir.TypeAttr.get(kind)
    entry.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)


def is_used(op: ir.Operation) -> bool:
    return any(next(iter(result.uses), None) is not None for result in op.results)
