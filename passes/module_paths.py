"""The modules of the user's model that a stage comes from, few enough to read."""

from collections import Counter
from collections.abc import Iterable

from torch_mlir import ir

from lemurc.dialects.locations import module_path
from lemurc.passes import graph as graphs

MOST, LETTERS = 4, 72


def module_paths(stage: ir.Operation) -> tuple[str, ...]:
    """Of the operations of an outlined stage, in order; at most `MOST`, the last being "...".

    By where they stand: equal composites of several modules are one function there.
    """
    functions = graphs.bodies(stage)
    block = functions["run"].regions[0].blocks[0] if "run" in functions else None
    found = [
        module_path(op.operation.location)
        for op in (block.operations if block is not None else ())
        if op.operation.name != "func.return" and not graphs.is_free(op.operation)
    ]
    return few(path for path in found if path)


def few(paths: Iterable[str]) -> tuple[str, ...]:
    """The same modules in few words: without those that others are inside of, then with a module
    instead of those directly inside it, innermost first, until they are few and short enough."""
    found = list(dict.fromkeys(paths))
    while True:
        found = [path for path in found if not any(o.startswith(f"{path}.") for o in found)]
        parents = Counter(path.rpartition(".")[0] for path in found)
        del parents[""]
        if not parents or (len(found) <= MOST and sum(map(len, found)) <= LETTERS):
            break
        inner = max(parents, key=lambda parent: (parent.count("."), parents[parent]))
        found = list(
            dict.fromkeys(inner if path.rpartition(".")[0] == inner else path for path in found)
        )
    return tuple(found) if len(found) <= MOST else (*found[: MOST - 1], "...")
