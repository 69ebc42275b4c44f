"""Take a fused group apart into pieces that may be computed at different times.

    %0:2 = call @fused_0(%x, %v, %w)         %0 = call @fused_1(%x, %v)     linear, gelu
           linear, gelu | linear       ->    %1 = call @linear_3(%x, %w)

    %2 = call @fused_2(%a, %b, %w)           %2 = call @linear_4(%a, %w)
           linear | add %b             ->    %3 = add %2, %b

`fuse` groups products of one input with several weights, and what finishes a product with what
that reads besides. All of it is there at once then; apart, each may come when it is needed.
"""

from collections.abc import Sequence

from torch_mlir import ir

from lemurc.passes import graph as graphs
from lemurc.passes.fuse import outline_groups
from lemurc.passes.graph import Graph
from lemurc.passes.sizes import Sizes
from lemurc.passes.unfuse import unfuse

_KEPT = ("lemur.device", "lemur.stage")


def pieces(outside: Graph, op: ir.Operation, functions: dict[str, ir.Operation]) -> list[list[int]]:
    """The nodes of the body of `op`, of the graph `outside`, by piece; [] where it calls no group,
    or one of one piece.

    A piece goes on with what reads its last value, and no other activation.
    """
    body = functions.get(graphs.callee(op))
    if (
        body is None
        or body.attributes["lemur.composite"].value != "fused"
        or "lemur.values" not in op.attributes
        or "lemur.cost" not in op.attributes
    ):
        return []
    graph = Graph(body)
    if any(graphs.is_free(graph.nodes[index]) for index in graph.placeable):
        return []
    given = zip(graph.block.arguments, op.operands, strict=True)
    weights = {argument for argument, value in given if outside.is_weight(value)}
    found: list[list[int]] = []
    of: dict[int, list[int]] = {}
    for index in graph.placeable:
        read = [value for value in graph.needs[index] if value not in weights]
        sources = [graph.producer.get(value) for value in read]
        source = sources[0] if len(sources) == 1 else None
        if source is not None and source == of[source][-1] and _read_once(graph, source):
            of[index] = of[source]
        else:
            of[index] = []
            found.append(of[index])
        of[index].append(index)
    return found if len(found) > 1 else []


def split(
    module: ir.Operation,
    call: ir.Operation,
    found: Sequence[Sequence[int]],
    functions: dict[str, ir.Operation],
    sizes: Sizes,
) -> list[ir.Operation]:
    """Put the pieces `found` of the group that `call` calls in its place: an operation for each."""
    called = functions[graphs.callee(call)]
    body = called.clone(ir.InsertionPoint(called)).operation  # others may call it too
    graph = Graph(body)
    single = {piece[0]: graph.nodes[piece[0]] for piece in found if len(piece) == 1}
    calls = outline_groups(module, graph, [piece for piece in found if len(piece) > 1], functions)
    kept = {name: call.attributes[name] for name in _KEPT if name in call.attributes}
    inner = [op.operation for op in body.regions[0].blocks[0].operations]
    inner = [op for op in inner[:-1] if not graphs.is_free(op)]
    members = unfuse(call, body, functions, sizes)
    for member in members:
        for name, value in kept.items():
            member.attributes[name] = value
    clones = dict(zip(inner, members, strict=True))
    first: dict[int, ir.Operation] = {**single, **calls}
    apart = [clones[first[piece[0]]] for piece in found]
    body.erase()
    return apart


def _read_once(graph: Graph, index: int) -> bool:
    results = graph.nodes[index].results
    return (
        len(results) == 1 and len(graph.users[results[0]]) == 1 and results[0] not in graph.returned
    )
