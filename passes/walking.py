"""Finding operations before changing any of them."""

from collections.abc import Callable
from typing import Any

from torch_mlir import ir


def operations(root: ir.Operation, matches: Callable[[ir.Operation], bool]) -> list[ir.Operation]:
    """Those inside `root` that match, innermost first; a walk may not see changes."""
    found: list[ir.Operation] = []

    def visit(operation: ir.Operation) -> Any:
        if matches(operation):
            found.append(operation)
        return ir.WalkResult.ADVANCE

    root.walk(visit)
    return found
