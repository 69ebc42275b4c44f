"""Compute what is wide in chunks of rows, where devices have no memory for it in one.

    %h = call @fused_0(%x, %up)       : 512x4096      %a = extract_slice %x [0..256]
    %y = call @linear_1(%h, %down)    : 512x1024      %b = call @fused_0_0x256(%a, %up)
                                                ->    %c = call @linear_1_0x256(%b, %down)
                                                      ... the other 256 rows ...
                                                      %y = tensor.concat dim(0) %c, %f

A chain of operations goes from a narrow value over wide ones to a narrow one: the hidden layer of
a transformer's feed-forward part, logits that are reduced at once. Its rows do not depend on each
other, so the wide values need not be there whole. Nothing is done while a placement is found;
then the chain at the peak is cut in 2, then 4, ... until one is, or the peak is elsewhere. On the
entry `lemur.chunks` says what was cut, `lemur.no_chunks` why cutting (further) does not help.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.passes import graph as graphs
from lemurc.passes import system as systems
from lemurc.passes import workloads
from lemurc.passes.annotate_cost import AnnotateCost
from lemurc.passes.attributes import attribute
from lemurc.passes.base import Pass
from lemurc.passes.graph import Graph
from lemurc.passes.legality import Legality, path_of
from lemurc.passes.liveness import Buffers
from lemurc.passes.placement_problem import build
from lemurc.passes.sizes import Sizes
from lemurc.passes.slicing import Along, Slicer
from lemurc.passes.solve_placement import fits, is_too_much
from lemurc.passes.split_parts import Chain, erase_unused_free, needs_along, only_reader, split
from lemurc.passes.unused import erase_unused_composites

CHUNKS = "lemur.chunks"
"""On an entry: what to say of each chain that was cut."""
NO_CHUNKS = "lemur.no_chunks"

_TRIES = 64
"""The most cuts in two of one entry point."""


@dataclass(frozen=True)
class Chunk(Pass):
    """`objective` and `time_limit`: those of `place`, to see whether it would find a placement."""

    name: ClassVar[str] = "chunk"

    objective: str = "latency"
    time_limit: float = 2.0

    def run(self, module: ir.Operation) -> None:
        for number in range(len(graphs.entries(module))):
            if not self._fits(module, number):
                self._cut(module, number)

    def _fits(self, module: ir.Operation, number: int) -> bool:
        system, functions = systems.read(module), graphs.bodies(module)
        graph, legality = Graph(graphs.entries(module)[number]), Legality(system, functions)
        allowed = [legality.devices(graph.nodes[index]) for index in graph.placeable]
        problem = build(graph, system, functions, allowed, self.objective)
        if not fits(problem, self.time_limit):
            return False
        if any(len(devices) > 1 for devices in allowed):
            return True
        only = [devices[0] for devices in problem.allowed]
        return not is_too_much(problem, only, system)

    def _cut(self, module: ir.Operation, number: int) -> None:
        """On a copy of the entry, which takes its place where that helps."""
        entry = graphs.entries(module)[number]
        kept = entry.clone(ir.InsertionPoint(entry)).operation
        kept.move_after(entry)
        kept.attributes["sym_visibility"] = ir.StringAttr.get("private")
        said: dict[str, str] = {}
        why = ""
        for _ in range(_TRIES):
            why = _cut_at_peak(module, entry, said)
            if why or self._fits(module, number):
                break
        if why or not self._fits(module, number):
            why = why or f"it does not fit in {_TRIES + 1} pieces either"
            kept.move_before(entry)
            entry.erase()
            entry = kept
            entry.attributes[NO_CHUNKS] = ir.StringAttr.get(why)
        else:
            kept.erase()
            entry.attributes[CHUNKS] = attribute(list(said.values()))
        if "sym_visibility" in entry.attributes:
            del entry.attributes["sym_visibility"]
        erase_unused_composites(module)
        AnnotateCost().run(module)


def _cut_at_peak(module: ir.Operation, entry: ir.Operation, said: dict[str, str]) -> str:
    """Cut the chain through the widest value at the peak in two, or each of its parts; else why
    not."""
    graph, sizes = Graph(entry), Sizes(entry)
    live = Buffers(graph, sizes).live(graph.placeable)
    peak = max(range(len(live)), key=lambda place: live[place])
    op = graph.nodes[graph.placeable[peak]]
    slicer = Slicer(module)
    wide = [
        value
        for value in (*op.results, *graph.needs[graph.placeable[peak]])
        if value in graph.producer and value not in graph.returned
    ]
    for value in sorted(wide, key=lambda value: -sizes.bytes(value)):
        chain = _chain(graph, value, slicer, sizes)
        if chain is None:
            continue
        where = path_of(chain.ops[0], slicer.functions) or workloads.kind(
            chain.ops[0], slicer.functions
        )
        half = chain.size // 2
        said[where] = f"{where} is computed in chunks of {half} rows"
        split(graph, chain, [half, chain.size - half], slicer)
        erase_unused_free(entry)
        AnnotateCost().run(module)
        return ""
    kind = workloads.kind(op, slicer.functions)
    where = path_of(op, slicer.functions) or kind
    return (
        f"most memory is needed at {kind} of {where}, where no chain of operations leads from a "
        "narrow value over a wide one, row by row, to a narrow one"
    )


def _chain(graph: Graph, value: ir.Value, slicer: Slicer, sizes: Sizes) -> Chain | None:
    """Operations that each alone read the result before: the first makes `value`, or what it is
    made of, all but the last make wide values, and ranges of rows go through all."""
    first = graph.nodes[graph.producer[value]]
    wide = sizes.bytes(value)
    ops = [first]
    while sizes.bytes(ops[-1].results[0]) > wide // 2:
        following = only_reader(ops[-1])
        if following is None or len(following.results) != 1:
            return None
        ops.append(following)
    while (before := _only_wide_input(graph, ops[0], wide, sizes)) is not None:
        ops.insert(0, before)
    last = ops[-1]
    if len(ops) < 2 or not isinstance(last.results[0].type, ir.RankedTensorType):
        return None
    for dim in range(last.results[0].type.rank):
        dims = _dims(graph, ops, dim, slicer)
        size = last.results[0].type.shape[dim]
        if dims is not None and size >= 2:
            return Chain(tuple(ops), dims, size)
    return None


def _only_wide_input(
    graph: Graph, op: ir.Operation, wide: int, sizes: Sizes
) -> ir.Operation | None:
    """What makes an operand of `op` that is as wide, and nothing else reads."""
    for value in op.operands:
        index = graph.producer.get(value)
        if index is None or graph.free[index] or len(graph.nodes[index].results) != 1:
            continue
        if sizes.bytes(value) > wide // 2 and only_reader(graph.nodes[index]) == op:
            return graph.nodes[index]
    return None


def _dims(
    graph: Graph, ops: list[ir.Operation], dim: int, slicer: Slicer
) -> tuple[int, ...] | None:
    """The dimension of each result that rows are counted along; no weight is cut."""
    found = [dim]
    for op, before in zip(reversed(ops), [*reversed(ops[:-1]), None], strict=True):
        needs = needs_along(slicer, op, found[0])
        if not needs or any(graph.is_weight(value) and part for value, part in needs.items()):
            return None
        if before is None:
            return tuple(found)
        part = needs.get(before.results[0])
        if not isinstance(part, Along) or (part.unit, part.outer) != (1, 1):
            return None
        found.insert(0, part.dim)
    return None
