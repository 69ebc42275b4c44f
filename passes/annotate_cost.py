"""Write on every placeable operation what it costs and how its results are called.

    linalg.generic ...  ->  linalg.generic ... {lemur.cost = {flops = 12 : i64, ...},
                                                lemur.values = ["v3"]}

Names are given once and never changed, so that all plans made from one program speak
of the same values. Where a size was dynamic and no maximum is known, it is counted
as 1, and `lemur.cost_note` on the function says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.passes import graph as graphs
from lemurc.passes.base import Pass
from lemurc.passes.counts import Work, work
from lemurc.passes.graph import Graph
from lemurc.passes.liveness import Buffers
from lemurc.passes.sizes import Sizes


@dataclass(frozen=True)
class AnnotateCost(Pass):
    name: ClassVar[str] = "annotate-cost"

    def run(self, module: ir.Operation) -> None:
        functions = graphs.bodies(module)
        for entry in graphs.entries(module):
            _annotate(entry, functions)


def _annotate(entry: ir.Operation, functions: dict[str, ir.Operation]) -> None:
    graph, sizes = Graph(entry), Sizes(entry)
    live = Buffers(graph, sizes).live(graph.placeable)
    number = _first_unused_number(graph)
    for index, live_bytes in zip(graph.placeable, live, strict=True):
        op = graph.nodes[index]
        op.attributes["lemur.cost"] = cost_attribute(work(op, sizes, functions), live_bytes)
        if "lemur.values" not in op.attributes:
            names = [f"v{number + offset}" for offset in range(len(op.results))]
            op.attributes["lemur.values"] = names_attribute(names)
            number += len(names)
    if sizes.assumed:
        entry.attributes["lemur.cost_note"] = ir.StringAttr.get(
            f"{sizes.assumed} dynamic sizes without a known maximum were counted as 1"
        )


def cost_attribute(done: Work, live_bytes: int) -> ir.DictAttr:
    return counts(
        flops=done.flops,
        bytes_read=done.bytes_read,
        bytes_written=done.bytes_written,
        live_bytes=live_bytes,
    )


def names_attribute(names: Sequence[str]) -> ir.ArrayAttr:
    return ir.ArrayAttr.get([ir.StringAttr.get(name) for name in names])


def counts(**values: int) -> ir.DictAttr:
    """A dictionary of 64-bit integers."""
    i64 = ir.IntegerType.get_signless(64)
    return ir.DictAttr.get({key: ir.IntegerAttr.get(i64, value) for key, value in values.items()})


def _first_unused_number(graph: Graph) -> int:
    taken = [
        int(name.value[1:])
        for op in graph.nodes
        if "lemur.values" in op.attributes
        for name in op.attributes["lemur.values"]
        if name.value[1:].isdigit()
    ]
    return max(taken, default=-1) + 1
