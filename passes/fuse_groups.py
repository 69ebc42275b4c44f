"""Which operations belong together: groups of nodes of a graph that stay acyclic.

A contraction takes the elementwise operations that finish its result (bias, activation,
residual) and those that prepare its inputs; contractions of one input with weights
(query, key and value; gate and up) form one group; elementwise chains form the rest.
Each refusal is kept with its reason, for `lemurc plan --explain`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from torch_mlir import ir

from lemurc.passes import graph as graphs
from lemurc.passes.graph import Graph

CONTRACTIONS = frozenset({"conv", "linear", "matmul"})
CYCLE = "one group would need what another makes of it"
ACTIVATIONS = frozenset({"gelu", "silu"})
ELEMENTWISE = frozenset(
    f"linalg.{name}"
    for name in ("abs", "add", "div", "exp", "log", "max", "min", "mul", "negf", "sub", "tanh")
)


@dataclass(frozen=True)
class Home:
    """Where an operation may go: its pin, its device if it has one, the devices that can run it."""

    pin: str = ""
    placed: str = ""
    legal: tuple[str, ...] = ()

    def why_apart(self, other: "Home") -> str:
        """What keeps two operations from going together; "" when nothing does."""
        if self.pin != other.pin:
            return f"pinned to {self.pin or 'nothing'} and {other.pin or 'nothing'}"
        if self.placed != other.placed:
            return f"placed on {self.placed or 'nothing'} and {other.placed or 'nothing'}"
        if self.legal != other.legal:
            return f"one may run on {', '.join(self.legal)}, the other on {', '.join(other.legal)}"
        return ""


class Grouping:
    """Nodes start alone; `merge` joins groups as long as none depends on itself through others.

    `refused` says of an edge, producer and reader, why its ends were not joined.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.refused: dict[tuple[int, int], str] = {}
        self._members: dict[int, set[int]] = {index: {index} for index in graph.placeable}
        self._successors: dict[int, set[int]] = {index: set() for index in graph.placeable}
        for index in graph.placeable:
            for value in graph.needs[index]:
                if value in graph.producer:
                    self._successors[graph.producer[value]].add(index)

    def of(self, node: int) -> set[int]:
        return self._members[node]

    def groups(self) -> list[list[int]]:
        """Groups of two and more, each in program order."""
        distinct = {id(group): group for group in self._members.values() if len(group) > 1}
        return sorted(sorted(group) for group in distinct.values())

    def merge(self, first: int, second: int) -> bool:
        joined = self.of(first) | self.of(second)
        if self._leaves_and_returns(joined):
            return False
        for node in joined:
            self._members[node] = joined
        return True

    def outputs(self, node: int) -> list[ir.Value]:
        """Values of the group of `node` that someone outside reads, in order."""
        group = self.of(node)
        return [
            result
            for index in sorted(group)
            for result in self._graph.nodes[index].results
            if result in self._graph.returned or not group.issuperset(self._graph.users[result])
        ]

    def _leaves_and_returns(self, group: set[int]) -> bool:
        waiting = [s for node in group for s in self._successors[node] if s not in group]
        seen: set[int] = set()
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen |= self._members[node]
            for inner in self._members[node]:
                following = self._successors[inner]
                if following & group:
                    return True
                waiting += following - seen
        return False


def form_groups(
    graph: Graph,
    functions: Mapping[str, ir.Operation],
    home: Callable[[ir.Operation], Home],
    horizontal: bool,
) -> Grouping:
    """Only nodes of equal homes are ever grouped."""
    grouping = Grouping(graph)
    kinds = {index: kind_of(graph.nodes[index], functions) for index in graph.placeable}
    homes = {index: home(graph.nodes[index]) for index in graph.placeable}
    other = {i: why_not_elementwise(graph.nodes[i], kinds[i]) for i in graph.placeable}
    elementwise = {index for index, why in other.items() if not why}
    contractions = [index for index in graph.placeable if kinds[index] in CONTRACTIONS]

    def join(first: int, second: int) -> str:
        if apart := homes[first].why_apart(homes[second]):
            return apart
        return "" if grouping.merge(first, second) else CYCLE

    if horizontal:
        for siblings in _siblings(graph, contractions, kinds):
            for sibling in siblings[1:]:
                join(siblings[0], sibling)
    for contraction in contractions:
        _take_epilogues(graph, grouping, contraction, other, join)
    for contraction in contractions:
        _take_producers(graph, grouping, contraction, elementwise, join)
    for node in sorted(elementwise):
        if len(grouping.of(node)) == 1:
            _take_epilogues(graph, grouping, node, other, join)
    _refuse_the_rest(graph, grouping, other)
    return grouping


def kind_of(op: ir.Operation, functions: Mapping[str, ir.Operation]) -> str:
    function = functions.get(graphs.callee(op))
    if function is None or "lemur.composite" not in function.attributes:
        return ""
    return str(function.attributes["lemur.composite"].value)


def _siblings(
    graph: Graph, contractions: list[int], kinds: Mapping[int, str]
) -> Iterable[list[int]]:
    """Linear layers, and products with weights, that read the same first operand."""
    by_input: dict[ir.Value, list[int]] = {}
    for index in contractions:
        operands = graph.nodes[index].operands
        weights = all(graph.is_weight(value) for value in list(operands)[1:])
        if kinds[index] in ("linear", "matmul") and weights and not graph.is_weight(operands[0]):
            by_input.setdefault(operands[0], []).append(index)
    return [nodes for nodes in by_input.values() if len(nodes) > 1]


Join = Callable[[int, int], str]
"""Joins the groups of two nodes, or says why not."""


def _take_epilogues(
    graph: Graph, grouping: Grouping, node: int, other: Mapping[int, str], join: Join
) -> None:
    """Elementwise operations that alone read what the group makes."""
    grown = True
    while grown:
        grown = False
        for value in grouping.outputs(node):
            outside = [user for user in graph.users[value] if user not in grouping.of(node)]
            why = _why_no_epilogue(graph, grouping, value, outside, other)
            why = why or join(node, outside[0])
            if not why:
                grown = True
                break
            grouping.refused.update({(graph.producer[value], user): why for user in outside})


def _why_no_epilogue(
    graph: Graph,
    grouping: Grouping,
    value: ir.Value,
    outside: list[int],
    other: Mapping[int, str],
) -> str:
    """What keeps the readers `outside` of `value` from joining the group that makes it."""
    if value in graph.returned:
        return "the value is a result too, so it must be in memory"
    if len(outside) != 1:
        return f"{len(outside)} operations read the value, so it must be in memory"
    [user] = outside
    if other[user]:
        return other[user]
    if len(grouping.of(user)) > 1:
        return "what reads the value is in another group already"
    if list(graph.nodes[user].results[0].type.shape) != list(value.type.shape):
        return "the reader's result has another shape"
    return ""


def _take_producers(
    graph: Graph, grouping: Grouping, node: int, elementwise: set[int], join: Join
) -> None:
    """Elementwise operations whose only reader is the group."""
    grown = True
    while grown:
        grown = False
        needed = [value for index in sorted(grouping.of(node)) for value in graph.needs[index]]
        for value in needed:
            source = graph.producer.get(value)
            if source not in elementwise or source in grouping.of(node):
                continue
            why = _why_no_producer(graph, grouping, node, value) or join(node, source)
            if not why:
                grown = True
                break
            inside = grouping.of(node).intersection(graph.users[value])
            grouping.refused.update({(source, user): why for user in inside})


def _why_no_producer(graph: Graph, grouping: Grouping, node: int, value: ir.Value) -> str:
    """What keeps the elementwise producer of `value` from joining the group of `node`."""
    if value in graph.returned:
        return "the value is a result too, so it must be in memory"
    if len(grouping.of(graph.producer[value])) > 1:
        return "what makes the value is in another group already"
    if not grouping.of(node).issuperset(graph.users[value]):
        return f"{len(graph.users[value])} operations read the value, so it must be in memory"
    return ""


def _refuse_the_rest(graph: Graph, grouping: Grouping, other: Mapping[int, str]) -> None:
    """What is no contraction and not elementwise takes nothing: no rule looked at its readers."""
    for user in graph.placeable:
        for value in graph.needs[user]:
            source = graph.producer.get(value)
            if source is not None and source not in grouping.of(user) and other[source]:
                grouping.refused.setdefault((source, user), other[source])


def why_not_elementwise(op: ir.Operation, kind: str) -> str:
    """ "" for an operation that computes each element of its one result from a few others."""
    name = kind or op.name.rpartition(".")[2]
    if op.name in graphs.VIEWS:
        return f"{name} is a view and computes nothing"
    if len(op.results) != 1 or not isinstance(op.results[0].type, ir.RankedTensorType):
        return f"{name} does not make one tensor"
    if kind in ACTIVATIONS or op.name in ELEMENTWISE:
        return ""
    if op.name != "linalg.generic":
        return f"{name} is not elementwise"
    if any("reduction" in str(kind) for kind in op.attributes["iterator_types"]):
        return "a reduction is not elementwise"
    return "" if _is_elementwise_loop(op) else "the loop reads other elements than it writes"


def _is_elementwise_loop(op: ir.Operation) -> bool:
    parallel = all("parallel" in str(kind) for kind in op.attributes["iterator_types"])
    maps = [item.value for item in op.attributes["indexing_maps"]]
    captured = set(graphs.values_read(op)) - set(op.operands)
    return (
        parallel
        and maps[-1] == ir.AffineMap.get_identity(maps[-1].n_dims)
        and all(item.is_projected_permutation for item in maps)
        and not any(isinstance(value.type, ir.RankedTensorType) for value in captured)
    )
