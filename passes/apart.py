"""Why operations that are next to each other are not one fused group, as an attribute.

    lemur.apart = [["reader", "softmax", "layer.0.attention", "softmax is not elementwise"], ...]

Of each: whether it is what reads the operation ("reader"), what it reads ("input"), or a group
it was taken out of ("group"); its kind, its module, and the reason `fuse` or `place` had.
"""

from collections.abc import Mapping

from torch_mlir import ir

from lemurc.passes import workloads
from lemurc.passes.fuse_groups import Grouping
from lemurc.passes.graph import Graph
from lemurc.passes.legality import path_of

APART = "lemur.apart"
Reason = list[str]


def reasons(
    graph: Graph, grouping: Grouping, functions: Mapping[str, ir.Operation]
) -> dict[int, list[Reason]]:
    """By the first node of each group, of those that stand alone too."""
    found: dict[int, list[Reason]] = {}

    def add(index: int, role: str, other: int, why: str) -> None:
        op = graph.nodes[other]
        reason = [role, workloads.kind(op, functions), path_of(op, functions), why]
        known = found.setdefault(min(grouping.of(index)), [])
        if reason not in known:
            known.append(reason)

    for (source, reader), why in sorted(grouping.refused.items()):
        if reader not in grouping.of(source):
            add(source, "reader", reader, why)
            add(reader, "input", source, why)
    return found


def taken_apart(op: ir.Operation, why: str, functions: Mapping[str, ir.Operation]) -> Reason:
    """For an operation that was in a group which could not be placed as one."""
    return ["group", "fused", path_of(op, functions), why]
