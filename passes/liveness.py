"""Bytes that are live while each placeable node of a graph runs.

A value is live from the node that makes it to the last that needs it; a view
shares the bytes of what it views. Weights are not counted: they live as long as
the program.
"""

from collections.abc import Mapping, Sequence
from math import prod

from torch_mlir import ir

from lemurc.passes import graph as graphs
from lemurc.passes.graph import VIEWS, Graph
from lemurc.passes.sizes import Sizes

_TILES_OF_A_RUN, _FULL_OF_A_RUN = 16, 12
"""Tiles that are stored together, and how many of them are used at least but in the last run."""

_SCORE_BYTES = 4
"""Scores of attention are f32 whatever it multiplies, or f64."""


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
        return self.live_of(order, set(range(len(self.bytes))))

    def temporary(self, order: Sequence[int]) -> list[int]:
        """The part of `live` that is neither an argument nor returned."""
        outside = {*self.arguments, *self.returned}
        return self.live_of(order, set(range(len(self.bytes))) - outside)

    def live_of(self, order: Sequence[int], counted: set[int]) -> list[int]:
        """The part of `live` that is `counted`."""
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


def temporaries(
    function: ir.Operation, shapes: Sequence[Sequence[int]], functions: Mapping[str, ir.Operation]
) -> int:
    """The most bytes that are neither read from outside nor returned, with what fused groups
    hold; `shapes` are those of the arguments."""
    graph, sizes = Graph(function), Sizes(function, shapes)
    order = graph.placeable
    return max(
        (
            live + held_inside(graph.nodes[index], sizes, functions)
            for index, live in zip(order, Buffers(graph, sizes).temporary(order), strict=True)
        ),
        default=0,
    )


def held_inside(op: ir.Operation, sizes: Sizes, functions: Mapping[str, ir.Operation]) -> int:
    """What a composite has while it runs, besides what it reads and makes.

    A fused group has its temporaries. Attention that is taken to pieces has its scores twice;
    kernels, and IREE on GPUs, have none: they want f32 of four dimensions. A convolution may
    have its image in overlapping tiles.
    """
    body = functions.get(graphs.callee(op))
    kind = "" if body is None else body.attributes["lemur.composite"].value
    if body is not None and kind == "fused":
        return temporaries(body, sizes.shapes(op.operands), functions)
    if body is not None and kind == "attention":
        query, key = list(op.operands)[:2]
        if query.type.rank != 4 or str(query.type.element_type) != "f32":
            return 2 * prod(sizes.shape(query)[:-1]) * sizes.shape(key)[-2] * _SCORE_BYTES
    if body is not None and kind == "conv":
        return _overlapping_tiles(op, body, sizes)
    return 0


def _overlapping_tiles(op: ir.Operation, body: ir.Operation, sizes: Sizes) -> int:
    """What Winograd's convolutions hold, at most: (m + 2)^2 numbers for m^2 of the result, m 2
    or 4, in runs of tiles that are not all full."""
    image, weight, result = (sizes.shape(x) for x in (*list(op.operands)[:2], op.results[0]))
    steps = [list(body.attributes[f"lemur.{name}"]) for name in ("stride", "dilation")]
    if len(image) != 4 or list(weight[2:]) != [3, 3] or any(set(step) != {1} for step in steps):
        return 0
    tiles = max(prod(-(-n // m) for n in result[2:]) * (m + 2) ** 2 for m in (2, 4))
    run = _TILES_OF_A_RUN * (4 + 2) ** 2
    return image[0] * (image[1] + 1) * (tiles * _TILES_OF_A_RUN // _FULL_OF_A_RUN + run) * 4
