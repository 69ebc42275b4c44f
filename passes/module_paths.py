"""The modules of the user's model that a stage comes from, few enough to read."""

from collections.abc import Iterable

from torch_mlir import ir

from lemurc.passes import graph as graphs
from lemurc.passes.legality import paths_of

MOST = 6


def module_paths(stage: ir.Operation) -> tuple[str, ...]:
    """Of the operations of an outlined stage, in order; at most `MOST`, the last being "..."."""
    functions = graphs.bodies(stage)
    block = functions["run"].regions[0].blocks[0] if "run" in functions else None
    found = [
        path
        for op in (block.operations if block is not None else ())
        if op.operation.name != "func.return" and not graphs.is_free(op.operation)
        for path in paths_of(op.operation, functions)
    ]
    return few(path for path in found if path)


def few(paths: Iterable[str]) -> tuple[str, ...]:
    """The same modules in few words: without those inside others, then by outer ones instead
    of inner ones until they are few enough."""
    distinct = list(dict.fromkeys(paths))
    depth = max((path.count(".") + 1 for path in distinct), default=0)
    while True:
        cut = dict.fromkeys(".".join(path.split(".")[:depth]) for path in distinct)
        outer = [path for path in cut if not any(path.startswith(f"{o}.") for o in cut)]
        if len(outer) <= MOST or depth == 1:
            break
        depth -= 1
    return tuple(outer) if len(outer) <= MOST else (*outer[: MOST - 1], "...")
