"""Turn every stage into a module of its own; what is left of an entry calls them.

    func.func @main(%x, %w) {           module @stage0 { func.func @run(%x, %w) {...} }
      %0 = ... {lemur.stage = 0}   ->   func.func private @stage0_run(...)
      return %0                         func.func @main(%x, %w) {
    }                                     %0 = call @stage0_run(%x, %w) {lemur.stage = @stage0}
                                          return %0
                                        } attributes {lemur.results = ["v0"]}

A stage is self-contained: it holds the composites it calls (equal ones once, named by
order of use, so that equal layers give equal text), clones of the free operations it
reads, and takes activations first, then weights. Markers of the lemur dialect are gone.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.passes import graph as graphs
from lemurc.passes import system as systems
from lemurc.passes.base import Pass
from lemurc.passes.clone_nodes import inputs_of, outputs_of
from lemurc.passes.graph import Graph
from lemurc.passes.stage_module import StageModule
from lemurc.passes.unused import erase_unused_composites


@dataclass(frozen=True)
class OutlineStages(Pass):
    name: ClassVar[str] = "outline-stages"

    def run(self, module: ir.Operation) -> None:
        system = systems.read(module)
        functions = graphs.bodies(module)
        count = 0
        for entry in graphs.entries(module):
            if "lemur.results" not in entry.attributes:
                count += _outline(entry, count, system, functions)
        erase_unused_composites(module)


def _outline(
    entry: ir.Operation,
    first: int,
    system: systems.System,
    functions: dict[str, ir.Operation],
) -> int:
    graph = Graph(entry)
    members: dict[int, list[int]] = {}
    for index in graph.placeable:
        number = graph.nodes[index].attributes["lemur.stage"].value
        members.setdefault(number, []).append(index)
    results = [graph.reference(value) for value in graph.terminator.operands]
    known: dict[ir.Value, ir.Value] = {value: value for value in graph.arguments}
    for offset, number in enumerate(sorted(members)):
        nodes = members[number]
        inputs = inputs_of(graph, nodes)
        outputs = outputs_of(graph, nodes)
        stage = StageModule(f"stage{first + offset}", graph, nodes, inputs, outputs, functions)
        with ir.InsertionPoint(entry), ir.Location.unknown():
            stage.emit(system)
        with ir.InsertionPoint(graph.terminator), ir.Location.unknown():
            call = stage.call([known[value] for value in inputs])
        known.update(zip(outputs, call.results, strict=True))
    for position, value in enumerate(graph.terminator.operands):
        graph.terminator.operands[position] = known[value]
    for op in reversed(graph.nodes):
        op.erase()
    names = [ir.StringAttr.get(name) for name in results]
    entry.attributes["lemur.results"] = ir.ArrayAttr.get(names)
    return len(members)
