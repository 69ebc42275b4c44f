"""Put stages, and the operations inside each, in an order that needs little memory.

The order given is kept unless another needs strictly less at its peak, so the pass
never makes matters worse. `lemur.schedule` on the function reports the peak, and a
bound below which no order can get: the most that one operation reads and writes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.passes import graph as graphs
from lemurc.passes.annotate_cost import counts
from lemurc.passes.base import Pass
from lemurc.passes.form_stages import predecessors
from lemurc.passes.graph import Graph
from lemurc.passes.liveness import Buffers
from lemurc.passes.sizes import Sizes
from lemurc.passes.stage_groups import stage_edges, topological


@dataclass(frozen=True)
class Schedule(Pass):
    name: ClassVar[str] = "schedule"

    def run(self, module: ir.Operation) -> None:
        for entry in graphs.entries(module):
            graph = Graph(entry)
            if graph.placeable:
                _schedule(graph)


def _schedule(graph: Graph) -> None:
    buffers = Buffers(graph, Sizes(graph.function))
    stage = [graph.nodes[i].attributes["lemur.stage"].value for i in graph.placeable]
    before = dict(zip(graph.placeable, predecessors(graph), strict=True))
    given = _by_stage(graph, stage)
    candidates = [given, _greedy(graph, buffers, stage, before)]
    best = min(candidates, key=lambda order: max(buffers.live(order)))
    graphs.reorder(graph, best)
    _renumber(graph, best)
    bound = max(
        sum(buffers.bytes[buffer] for buffer in touched) for touched in buffers.touched.values()
    )
    graph.function.attributes["lemur.schedule"] = counts(
        bound_bytes=bound, peak_bytes=max(buffers.live(best))
    )


def _by_stage(graph: Graph, stage: Sequence[int]) -> list[int]:
    pairs = sorted(zip(stage, graph.placeable, strict=True))
    return [index for _, index in pairs]


def _greedy(
    graph: Graph, buffers: Buffers, stage: Sequence[int], before: dict[int, set[int]]
) -> list[int]:
    """Stage by stage, always the ready operation that frees most and allocates least."""
    numbers = dict(zip(graph.placeable, stage, strict=True))
    place = {index: node for node, index in enumerate(graph.placeable)}
    edges = stage_edges(stage, [{place[p] for p in before[i]} for i in graph.placeable])
    remaining = [0] * len(buffers.bytes)
    for touched in buffers.touched.values():
        for buffer in touched:
            remaining[buffer] += 1
    for buffer in buffers.returned:
        remaining[buffer] += 1
    alive = set(buffers.arguments)

    def growth(index: int) -> int:
        touched = buffers.touched[index]
        made = sum(buffers.bytes[b] for b in touched if b not in alive)
        return made - sum(buffers.bytes[b] for b in touched if remaining[b] == 1)

    order: list[int] = []
    done: set[int] = set()
    for number in topological(edges):
        waiting = [index for index in graph.placeable if numbers[index] == number]
        while waiting:
            ready = [index for index in waiting if before[index] <= done]
            chosen = min(ready, key=lambda index: (growth(index), index))
            for buffer in buffers.touched[chosen]:
                alive.add(buffer)
                remaining[buffer] -= 1
            waiting.remove(chosen)
            done.add(chosen)
            order.append(chosen)
    return order


def _renumber(graph: Graph, order: Sequence[int]) -> None:
    """Stages count up in the order in which they now stand."""
    i64 = ir.IntegerType.get_signless(64)
    numbers: dict[int, int] = {}
    for index in order:
        op = graph.nodes[index]
        number = numbers.setdefault(op.attributes["lemur.stage"].value, len(numbers))
        op.attributes["lemur.stage"] = ir.IntegerAttr.get(i64, number)
