"""Which operations belong together: groups of nodes of a graph that stay acyclic.

A contraction takes the elementwise operations that finish its result (bias, activation,
residual) and those that prepare its inputs; contractions of one input with weights
(query, key and value; gate and up) form one group; elementwise chains form the rest.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping

from torch_mlir import ir

from lemurc.passes import graph as graphs
from lemurc.passes.graph import Graph

CONTRACTIONS = frozenset({"conv", "linear", "matmul"})
ACTIVATIONS = frozenset({"gelu", "silu"})
ELEMENTWISE = frozenset(
    f"linalg.{name}"
    for name in ("abs", "add", "div", "exp", "log", "max", "min", "mul", "negf", "sub", "tanh")
)


class Grouping:
    """Nodes start alone; `merge` joins groups as long as none depends on itself through others."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
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
    compatible: Callable[[ir.Operation], Hashable],
    horizontal: bool,
) -> Grouping:
    """Only nodes of equal `compatible` are ever grouped."""
    grouping = Grouping(graph)
    kinds = {index: kind_of(graph.nodes[index], functions) for index in graph.placeable}
    keys = {index: compatible(graph.nodes[index]) for index in graph.placeable}
    elementwise = {i for i in graph.placeable if _is_elementwise(graph.nodes[i], kinds[i])}
    contractions = [index for index in graph.placeable if kinds[index] in CONTRACTIONS]

    def join(first: int, second: int) -> bool:
        return keys[first] == keys[second] and grouping.merge(first, second)

    if horizontal:
        for siblings in _siblings(graph, contractions, kinds):
            for sibling in siblings[1:]:
                join(siblings[0], sibling)
    for contraction in contractions:
        _take_epilogues(graph, grouping, contraction, elementwise, join)
    for contraction in contractions:
        _take_producers(graph, grouping, contraction, elementwise, join)
    for node in sorted(elementwise):
        if len(grouping.of(node)) == 1:
            _take_epilogues(graph, grouping, node, elementwise, join)
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


Join = Callable[[int, int], bool]


def _take_epilogues(
    graph: Graph, grouping: Grouping, node: int, elementwise: set[int], join: Join
) -> None:
    grown = True
    while grown:
        grown = False
        for value in grouping.outputs(node):
            if value in graph.returned:
                continue
            outside = [user for user in graph.users[value] if user not in grouping.of(node)]
            if len(outside) != 1 or outside[0] not in elementwise:
                continue
            user = outside[0]
            alone = len(grouping.of(user)) == 1
            same_shape = list(graph.nodes[user].results[0].type.shape) == list(value.type.shape)
            if alone and same_shape and join(node, user):
                grown = True
                break


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
            if (
                source in elementwise
                and value not in graph.returned
                and len(grouping.of(source)) == 1
                and grouping.of(node).issuperset(graph.users[value])
                and join(node, source)
            ):
                grown = True
                break


def _is_elementwise(op: ir.Operation, kind: str) -> bool:
    if len(op.results) != 1 or not isinstance(op.results[0].type, ir.RankedTensorType):
        return False
    if kind in ACTIVATIONS or op.name in ELEMENTWISE:
        return True
    if op.name != "linalg.generic":
        return False
    parallel = all("parallel" in str(kind) for kind in op.attributes["iterator_types"])
    maps = [item.value for item in op.attributes["indexing_maps"]]
    captured = set(graphs.values_read(op)) - set(op.operands)
    return (
        parallel
        and maps[-1] == ir.AffineMap.get_identity(maps[-1].n_dims)
        and all(item.is_projected_permutation for item in maps)
        and not any(isinstance(value.type, ir.RankedTensorType) for value in captured)
    )
