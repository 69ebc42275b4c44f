"""What the tests of the passes share: a context, and what a module means."""

from collections.abc import Callable, Iterator

import pytest
from torch_mlir import ir

from lemurc.dialects.context import new_context
from lemurc.dialects.lemur import MARKERS
from lemurc.passes import graph as graphs


@pytest.fixture
def context() -> Iterator[ir.Context]:
    with new_context() as context, ir.Location.unknown():
        yield context


@pytest.fixture
def parse(context: ir.Context) -> Callable[[str], ir.Module]:
    return ir.Module.parse


@pytest.fixture
def meaning() -> Callable[[ir.Module], dict[str, list[str]]]:
    """Per entry, an expression for each result: equal when the programs compute the same
    by the same operations, however these are ordered, grouped or outlined."""
    return lambda module: {
        graphs.symbol(entry): _evaluate(entry, _argument_names(entry), _scope(module.operation))
        for entry in graphs.entries(module.operation)
    }


def _argument_names(entry: ir.Operation) -> list[str]:
    return list(graphs.Graph(entry).arguments.values())


def _scope(module: ir.Operation) -> dict[str, tuple[ir.Operation, dict]]:
    """Callable by name: the functions, and for each stage its `run`, with their own scopes."""
    scope: dict[str, tuple[ir.Operation, dict]] = {}
    for operation in module.regions[0].blocks[0].operations:
        op = operation.operation
        if op.name == "func.func" and len(op.regions[0].blocks):
            scope[graphs.symbol(op)] = (op, scope)
        elif op.name == "builtin.module":
            inner = _scope(op)
            scope[f"{op.attributes['sym_name'].value}_run"] = inner["run"]
    return scope


def _evaluate(function: ir.Operation, arguments: list[str], scope: dict) -> list[str]:
    block = function.regions[0].blocks[0]
    known = dict(zip(block.arguments, arguments, strict=True))
    *operations, terminator = (op.operation for op in block.operations)
    for op in operations:
        operands = [known[value] for value in op.operands]
        if op.name in MARKERS:
            results = operands
        elif (called := scope.get(graphs.callee(op))) is not None:
            results = _evaluate(called[0], operands, called[1])
        else:
            captured = [known[value] for value in graphs.values_read(op)]
            term = f"{op.name}({', '.join(operands + captured)}){_details(op)}"
            results = [f"{hash(term)}#{number}" for number in range(len(op.results))]
        known.update(zip(op.results, results, strict=True))
    return [known[value] for value in terminator.operands]


def _details(op: ir.Operation) -> str:
    """Attributes other than ours, types, and the names of what is inside."""
    attributes = [f"{n}={op.attributes[n]}" for n in op.attributes if not n.startswith("lemur.")]
    inside: list[str] = []

    def visit(inner: ir.Operation) -> ir.WalkResult:
        inside.append(inner.name)
        return ir.WalkResult.ADVANCE

    op.walk(visit)
    return f"{sorted(attributes)}{[str(r.type) for r in op.results]}{inside}"
