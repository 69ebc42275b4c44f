"""Bytes that are live while each placeable node of a graph runs.

A value is live from the node that makes it to the last that needs it; a view
shares the bytes of what it views. Weights are not counted: they live as long as
the program.
"""

from collections.abc import Sequence

from torch_mlir import ir

from lemurc.passes.graph import VIEWS, Graph
from lemurc.passes.sizes import Sizes


class Buffers:
    """The values of a graph grouped into the buffers that hold them."""

    def __init__(self, graph: Graph, sizes: Sizes) -> None:
        self._graph = graph
        self.of: dict[ir.Value, int] = {}
        self.bytes: list[int] = []
        for value in graph.arguments:
            if not graph.is_weight(value):
                self._own(value, sizes)
        for index in graph.placeable:
            op = graph.nodes[index]
            source = op.operands[0] if op.name in VIEWS and len(op.operands) else None
            for result in op.results:
                if source in self.of:
                    self.of[result] = self.of[source]
                elif source is None or not graph.is_weight(source):
                    self._own(result, sizes)
        self.touched = {
            index: self._distinct([*graph.needs[index], *graph.nodes[index].results])
            for index in graph.placeable
        }
        self.arguments = self._distinct(graph.arguments)
        self.returned = self._distinct(graph.returned)

    def live(self, order: Sequence[int]) -> list[int]:
        """Live bytes at each node of `order`, which must be a topological order."""
        return self._live(order, set(range(len(self.bytes))))

    def temporary(self, order: Sequence[int]) -> list[int]:
        """The part of `live` that is neither an argument nor returned."""
        outside = {*self.arguments, *self.returned}
        return self._live(order, set(range(len(self.bytes))) - outside)

    def _live(self, order: Sequence[int], counted: set[int]) -> list[int]:
        if not order:
            return []
        first = dict.fromkeys(self.arguments, 0)
        last = dict.fromkeys(self.returned, len(order) - 1)
        for place, index in enumerate(order):
            for buffer in self.touched[index]:
                first.setdefault(buffer, place)
                last[buffer] = max(place, last.get(buffer, 0))
        change = [0] * (len(order) + 1)
        for buffer, start in first.items():
            if buffer not in counted:
                continue
            change[start] += self.bytes[buffer]
            change[last.get(buffer, start) + 1] -= self.bytes[buffer]
        total, live = 0, []
        for step in change[:-1]:
            total += step
            live.append(total)
        return live

    def _own(self, value: ir.Value, sizes: Sizes) -> None:
        self.of[value] = len(self.bytes)
        self.bytes.append(sizes.bytes(value))

    def _distinct(self, values: object) -> list[int]:
        found = (self.of[value] for value in values if value in self.of)  # type: ignore[attr-defined]
        return list(dict.fromkeys(found))
