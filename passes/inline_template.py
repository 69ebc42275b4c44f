"""Operations of a function written as text, put in front of another operation."""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir


def inlined(text: str, operands: Sequence[ir.Value], before: ir.Operation) -> ir.Value:
    """The value that the one function in `text` returns for `operands`."""
    with before.context:
        template = ir.Module.parse(text)
    body = template.body.operations[0].regions[0].blocks[0]
    values: dict[ir.Value, ir.Value] = dict(zip(body.arguments, operands, strict=True))

    def connect(nested: ir.Operation) -> Any:
        for at, operand in enumerate(nested.operands):
            if operand in values:
                nested.operands[at] = values[operand]
        return ir.WalkResult.ADVANCE

    *steps, end = body.operations
    with ir.InsertionPoint(before), before.location:
        for step in steps:
            made = step.operation.clone()
            made.walk(connect)
            values.update(zip(step.operation.results, made.results, strict=True))
    return values[end.operation.operands[0]]
