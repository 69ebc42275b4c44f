"""What decompositions assume of sizes that vary.

    while step < x.shape[0]: ...   ->   3 < s0, 4 >= s0: right for the example's size alone

torch.export checks such assumptions against the declared ranges and raises an error;
run_decompositions writes them down, and nobody reads them.
"""

from typing import Any

import torch
from torch.export import ExportedProgram

from lemurc.errors import UnsupportedModelError


def count_guards(program: ExportedProgram) -> int:
    return len(_guards(program))


def require_no_new_guards(program: ExportedProgram, before: int) -> None:
    """Assumptions after the first `before` narrow what the program is right for."""
    assumed = [str(guard.expr) for guard in _guards(program)[before:]]
    if not assumed:
        return
    for node in program.graph.find_nodes(op="placeholder"):
        for at, size in enumerate(getattr(node.meta.get("val"), "shape", ())):
            if isinstance(size, torch.SymInt):
                name = f"{node.name}.shape[{at}]"
                assumed = [text.replace(str(size.node._expr), name) for text in assumed]
    raise UnsupportedModelError(
        f"an operation is taken apart only for some sizes: {'; '.join(assumed[:3])}",
        code="dynamic-size-specialised",
        hint="give these dimensions a fixed size, or do it with other PyTorch operations",
    )


def _guards(program: ExportedProgram) -> list[Any]:
    for node in program.graph.find_nodes(op="placeholder"):
        for size in getattr(node.meta.get("val"), "shape", ()):
            if isinstance(size, torch.SymInt):
                return list(size.node.shape_env.guards)
    return []
