"""Copy nodes of a graph into another block, as outlining a group or a stage needs."""

from collections.abc import Callable, Sequence

from torch_mlir import ir

from lemurc.dialects.lemur import BARRIER, MARKERS
from lemurc.passes import graph as graphs
from lemurc.passes.graph import Graph
from lemurc.passes.host_calls import ATTRIBUTE


def inputs_of(graph: Graph, nodes: Sequence[int]) -> list[ir.Value]:
    """What the nodes read from outside, in order of first use; weights last."""
    made = {result for index in nodes for result in graph.nodes[index].results}
    read = dict.fromkeys(value for index in nodes for value in graph.needs[index])
    outside = [value for value in read if value not in made]
    return sorted(outside, key=graph.is_weight)


def outputs_of(graph: Graph, nodes: Sequence[int]) -> list[ir.Value]:
    """What others read of the nodes, in order of definition."""
    inside = set(nodes)
    return [
        result
        for index in nodes
        for result in graph.nodes[index].results
        if result in graph.returned or not inside.issuperset(graph.users[result])
    ]


def clone_nodes(
    graph: Graph,
    nodes: Sequence[int],
    inputs: Sequence[ir.Value],
    outputs: Sequence[ir.Value],
    block: ir.Block,
    after_each: Callable[[ir.Operation], None] | None = None,
) -> None:
    """Fill `block`, whose arguments stand for `inputs`, and return `outputs`.

    Free nodes and barriers come along; what passes noted on the originals, and other markers,
    do not.
    """
    inside: dict[ir.Value, ir.Value] = dict(zip(inputs, block.arguments, strict=True))

    def add(index: int) -> None:
        for value in graph.reads[index]:
            source = graph.producer.get(value)
            if value not in inside and source is not None:
                add(source)
        op = graph.nodes[index]
        if op.name in MARKERS and op.name != BARRIER:
            inside[op.results[0]] = inside[op.operands[0]]
            return
        clone = op.clone(ir.InsertionPoint(block)).operation
        graphs.remap(clone, inside)
        _strip(clone)
        inside.update(zip(op.results, clone.results, strict=True))
        if after_each:
            after_each(clone)

    for index in nodes:
        add(index)
    with ir.InsertionPoint(block), ir.Location.unknown():
        ir.Operation.create("func.return", operands=[inside[value] for value in outputs])


def function_type(inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> ir.FunctionType:
    return ir.FunctionType.get([v.type for v in inputs], [v.type for v in outputs])


def create_function(name: str, kind: ir.FunctionType, block: ir.Block | None) -> ir.Operation:
    """A `func.func` with an empty body at the end of `block`, or a declaration where we stand."""
    function = ir.Operation.create(
        "func.func",
        attributes={"sym_name": ir.StringAttr.get(name), "function_type": ir.TypeAttr.get(kind)},
        regions=1,
        ip=ir.InsertionPoint(block) if block is not None else None,
    )
    if block is not None:
        ir.Block.create_at_start(function.regions[0], kind.inputs)
    return function


def _strip(op: ir.Operation) -> None:
    for name in [named for named in op.attributes if named.startswith("lemur.")]:
        if name not in ("lemur.kernel", ATTRIBUTE):
            del op.attributes[name]
