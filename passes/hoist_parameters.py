"""Compute at compile time what depends on weights alone.

    func @main(%w, %x) {                      func private @__parameters(%w) -> (derived.0)
      %d = scale(%w)                   ->       attributes {lemur.parameters}
      conv(%x, %d)                            func @main(%x, %d {lemur.param = "derived.0"})
    }                                           conv(%x, %d)

One such function serves all entries; the driver runs it once and stores its results as
weights. What would grow (a bias broadcast to a full tensor) or is only another view of
a weight is left where it is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from lemurc.passes import graph as graphs
from lemurc.passes.base import Pass
from lemurc.passes.graph import FREE, VIEWS, Graph
from lemurc.passes.sizes import Sizes
from lemurc.passes.unused import erase_unused_weights, is_used, set_arguments

NAME = "__parameters"
_PURE = ("linalg.", "tensor.", "arith.", "math.")


@dataclass(frozen=True)
class HoistParameters(Pass):
    """`max_growth`: how many times the bytes of its weights a result may have."""

    name: ClassVar[str] = "hoist-parameters"
    optional: ClassVar[bool] = True

    max_growth: float = 1.1

    def run(self, module: ir.Operation) -> None:
        entries = graphs.entries(module)
        if any("lemur.parameters" in op.attributes for op in graphs.functions(module)):
            return
        found = [(graph, self._roots(graph)) for graph in map(Graph, entries)]
        if any(roots for _, roots in found):
            _hoist(module, found)

    def _roots(self, graph: Graph) -> list[ir.Value]:
        """Values worth storing: computed from weights, read by something that is not."""
        derived = _Derived(graph)
        roots: dict[ir.Value, None] = {}

        def consider(value: ir.Value) -> None:
            index = graph.producer.get(value)
            if index is None or not derived.sources[index]:
                return
            if self._pays(value, derived.sources[index], graph.nodes[index], derived.sizes):
                roots[value] = None
            else:
                for operand in graph.reads[index]:
                    consider(operand)

        for index in range(len(graph.nodes)):
            if not derived.sources[index]:
                for value in graph.reads[index]:
                    consider(value)
        for value in graph.returned:
            consider(value)
        return list(roots)

    def _pays(
        self, value: ir.Value, sources: set[ir.Value], op: ir.Operation, sizes: Sizes
    ) -> bool:
        if not isinstance(value.type, ir.RankedTensorType) or not value.type.has_static_shape:
            return False
        if op.name in VIEWS or op.name == "tensor.extract_slice":
            return False
        limit = self.max_growth * sum(sizes.bytes(source) for source in sources)
        return sizes.bytes(value) <= limit


@dataclass
class _Derived:
    """Per node: the weights it is computed from; empty when on anything else, or on none."""

    graph: Graph
    sources: list[set[ir.Value]] = field(init=False)
    sizes: Sizes = field(init=False)

    def __post_init__(self) -> None:
        self.sizes = Sizes(self.graph.function)
        constant: list[bool] = []
        self.sources = []
        for index, op in enumerate(self.graph.nodes):
            sources: set[ir.Value] = set()
            pure = op.name.startswith(_PURE)
            for value in self.graph.reads[index]:
                producer = self.graph.producer.get(value)
                if producer is None and self.graph.is_weight(value):
                    sources.add(value)
                elif producer is not None and (constant[producer] or self.sources[producer]):
                    sources |= self.sources[producer]
                else:
                    pure = False
            constant.append(pure and not sources)
            self.sources.append(sources if pure else set())


def _hoist(module: ir.Operation, found: list[tuple[Graph, list[ir.Value]]]) -> None:
    block = module.regions[0].blocks[0]
    weights: dict[str, ir.Type] = {}
    for graph, roots in found:
        for value in _weights_below(graph, roots):
            weights[graph.arguments[value].removeprefix("param:")] = value.type
    with ir.InsertionPoint.at_block_begin(block), ir.Location.unknown():
        function = ir.Operation.create(
            "func.func",
            attributes={
                "sym_name": ir.StringAttr.get(NAME),
                "sym_visibility": ir.StringAttr.get("private"),
                "lemur.parameters": ir.UnitAttr.get(),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(list(weights.values()), [])),
                "arg_attrs": ir.ArrayAttr.get([_param(name) for name in weights]),
            },
            regions=1,
        )
        body = ir.Block.create_at_start(function.regions[0], list(weights.values()))
    arguments = dict(zip(weights, body.arguments, strict=True))
    returned = [value for graph, roots in found for value in _copy(graph, roots, body, arguments)]
    with ir.InsertionPoint(body), ir.Location.unknown():
        terminator = ir.Operation.create("func.return", operands=returned)
    _set_results(function, terminator)
    PassManager.parse("func.func(cse)").run(function)
    names = _name_results(function)
    _replace(found, names)


def _weights_below(graph: Graph, roots: list[ir.Value]) -> list[ir.Value]:
    indices = _below(graph, roots)
    reads = (value for index in indices for value in graph.reads[index])
    return list(dict.fromkeys(value for value in reads if graph.is_weight(value)))


def _below(graph: Graph, roots: list[ir.Value]) -> list[int]:
    """The nodes that `roots` are computed by, in order."""
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        index = graph.producer.get(waiting.pop())
        if index is not None and index not in found:
            found.add(index)
            waiting += graph.reads[index]
    return sorted(found)


def _copy(
    graph: Graph, roots: list[ir.Value], body: ir.Block, arguments: dict[str, ir.Value]
) -> Iterator[ir.Value]:
    inside = {
        value: arguments[name.removeprefix("param:")]
        for value, name in graph.arguments.items()
        if name.removeprefix("param:") in arguments and graph.is_weight(value)
    }
    for index in _below(graph, roots):
        clone = graph.nodes[index].clone(ir.InsertionPoint(body)).operation
        graphs.remap(clone, inside)
        inside.update(zip(graph.nodes[index].results, clone.results, strict=True))
    for root in roots:
        yield inside[root]


def _set_results(function: ir.Operation, terminator: ir.Operation) -> None:
    kind = ir.FunctionType.get(
        [value.type for value in function.regions[0].blocks[0].arguments],
        [value.type for value in terminator.operands],
    )
    function.attributes["function_type"] = ir.TypeAttr.get(kind)


def _name_results(function: ir.Operation) -> list[str]:
    """Return equal values once; the name of each original result, in order."""
    old = list(function.regions[0].blocks[0].operations)[-1].operation
    values = list(old.operands)
    distinct = list(dict.fromkeys(values))
    names = {value: f"derived.{number}" for number, value in enumerate(distinct)}
    with ir.InsertionPoint(old), ir.Location.unknown():
        terminator = ir.Operation.create("func.return", operands=distinct)
    old.erase()
    _set_results(function, terminator)
    function.attributes["res_attrs"] = ir.ArrayAttr.get([_param(names[v]) for v in distinct])
    return [names[value] for value in values]


def _replace(found: list[tuple[Graph, list[ir.Value]]], names: list[str]) -> None:
    """Give each entry the derived weights it uses, and drop what only they used."""
    remaining = iter(names)
    for graph, roots in found:
        entry, attributes = graph.function, list(graph.function.attributes["arg_attrs"])
        arguments: dict[str, ir.Value] = {}
        for root in roots:
            name = next(remaining)
            if name not in arguments:
                arguments[name] = graph.block.add_argument(root.type, ir.Location.unknown())
                attributes.append(_param(name))
            root.replace_all_uses_with(arguments[name])
        set_arguments(entry, attributes)
        for index in reversed(_below(graph, roots)):
            op = graph.nodes[index]
            if not is_used(op) and (op.name in FREE or op.name.startswith(_PURE)):
                op.erase()
        erase_unused_weights(entry)


def _param(name: str) -> ir.DictAttr:
    return ir.DictAttr.get({"lemur.param": ir.StringAttr.get(name)})
