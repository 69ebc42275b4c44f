"""Keep compilers from undoing the order that `schedule` chose.

    %1 = linear(%0)                     %1 = linear(%0)
    ...                                 %2 = "lemur.barrier"(%1)
    %5 = linear(%4)               ->    ...
    %6 = add(%1, %5)                    %5 = linear(%4)
                                        %6 = add(%2, %5)

IREE computes what it fuses where the last of it stands. Had it fused the first `linear` with the
`add`, %0 would be live until then, and what sums many branches would have all of them at once. So
a value that is read only after other work, by what it could be fused with, gets a barrier: in
stages that would need a hundredth more memory if all such values were computed late. Values of
sizes known only at the call are left alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.passes import graph as graphs
from lemurc.passes.annotate_cost import names_attribute
from lemurc.passes.base import Pass
from lemurc.passes.fuse_groups import CONTRACTIONS, kind_of, why_not_elementwise
from lemurc.passes.graph import VIEWS, Graph
from lemurc.passes.liveness import Buffers, held_inside
from lemurc.passes.memory_order import OrderProblem
from lemurc.passes.sizes import Sizes

Functions = Mapping[str, ir.Operation]

_WORTH = 0.01


@dataclass(frozen=True)
class KeepOrder(Pass):
    name: ClassVar[str] = "keep-order"

    def run(self, module: ir.Operation) -> None:
        functions = graphs.bodies(module)
        for entry in graphs.entries(module):
            graph = Graph(entry)
            stages: dict[int, list[int]] = {}
            for index in graph.placeable:
                stages.setdefault(graph.nodes[index].attributes["lemur.stage"].value, []).append(
                    index
                )
            peak = _Peak(graph, functions)
            for nodes in stages.values():
                _keep(graph, nodes, functions, peak)


class _Peak:
    """The most that is live at once while steps run, inputs and results of the program aside."""

    def __init__(self, graph: Graph, functions: Functions) -> None:
        sizes = Sizes(graph.function)
        self._buffers = Buffers(graph, sizes)
        outside = {*self._buffers.arguments, *self._buffers.returned}
        self._sizes = [
            0 if buffer in outside else size for buffer, size in enumerate(self._buffers.bytes)
        ]
        self._inside = {
            index: held_inside(graph.nodes[index], sizes, functions) for index in graph.placeable
        }

    def __call__(self, steps: Sequence[Sequence[int]]) -> int:
        """A step holds what any of its nodes reads, makes or has inside."""
        problem = OrderProblem(
            self._sizes,
            [sorted({b for index in step for b in self._buffers.touched[index]}) for step in steps],
            [set() for _ in steps],
            [sum(self._inside[index] for index in step) for step in steps],
        )
        return problem.peak(range(len(steps)))


def _keep(graph: Graph, nodes: Sequence[int], functions: Functions, peak: _Peak) -> None:
    """`nodes` are those of one stage, in order."""
    work = [index for index in nodes if graph.nodes[index].name not in VIEWS]
    place = {index: number for number, index in enumerate(work)}
    fusible = {
        index: not why_not_elementwise(graph.nodes[index], kind_of(graph.nodes[index], functions))
        for index in work
    }
    held: list[ir.Value] = []
    late: dict[int, int] = {}
    for index in work:
        for value in graph.nodes[index].results:
            if not isinstance(value.type, ir.RankedTensorType) or not value.type.has_static_shape:
                continue
            readers = [reader for reader in _readers(graph, value) if reader[0] in place]
            if not readers:
                continue
            first = min(place[reader] for reader, _ in readers)
            between = work[place[index] + 1 : first]
            entered = all(_enters_late(graph.nodes[r], v, functions) for r, v in readers)
            if entered or not all(fusible[other] for other in between):
                held.append(value)
                late[index] = min(late.get(index, first), first)
    if peak(_merged(work, late)) > (1 + _WORTH) * peak([[index] for index in work]):
        for value in held:
            _put_barrier(graph, value, {*nodes})


def _merged(work: Sequence[int], late: Mapping[int, int]) -> list[list[int]]:
    """`work` as steps: each node of `late` is in that of the node at the place it says."""
    steps = {place: [index] for place, index in enumerate(work)}
    for place, index in enumerate(work):
        if index in late:
            steps[late[index]] += steps.pop(place)
    return [steps[place] for place in sorted(steps)]


def _readers(graph: Graph, value: ir.Value) -> list[tuple[int, ir.Value]]:
    """Nodes that compute with `value` or a view of it, and which of them they read."""
    found = []
    for user in graph.users[value]:
        op = graph.nodes[user]
        if op.name in VIEWS:
            found += _readers(graph, op.results[0])
        else:
            found.append((user, value))
    return found


def _enters_late(op: ir.Operation, value: ir.Value, functions: Functions) -> bool:
    """Whether `op` is a group that multiplies first, and reads `value` afterwards."""
    body = functions.get(graphs.callee(op))
    if body is None or kind_of(op, functions) != "fused":
        return False
    graph = Graph(body)
    products = [i for i in graph.placeable if kind_of(graph.nodes[i], functions) in CONTRACTIONS]
    inside = zip(body.regions[0].blocks[0].arguments, op.operands, strict=True)
    arguments = [argument for argument, operand in inside if operand == value]
    readers = [user for argument in arguments for user in graph.users[argument]]
    return bool(products and readers) and min(readers) > products[0]


def _put_barrier(graph: Graph, value: ir.Value, nodes: set[int]) -> None:
    """Between `value` and those of `nodes` that read it."""
    op = value.owner
    kept = {
        name: op.attributes[name]
        for name in ("lemur.device", "lemur.stage")
        if name in op.attributes
    }
    if "lemur.values" in op.attributes:
        kept["lemur.values"] = names_attribute([f"{graph.reference(value)}.held"])
    with ir.InsertionPoint(op), op.location:
        barrier = ir.Operation.create(
            "lemur.barrier", results=[value.type], operands=[value], attributes=kept
        )
    barrier.move_after(op)
    for user in graph.users[value]:
        if user in nodes:
            graphs.remap(graph.nodes[user], {value: barrier.results[0]})
