"""Gather a contraction and the elementwise work around it into one `fused` composite.

    %1 = call @linear_0(%x, %w, %b)          %3 = call @fused_0(%x, %r, %w, %b)
    %2 = call @gelu_1(%1)               ->   func.func private @fused_0(...) attributes
    %3 = add(%2, %r)                           {lemur.composite = "fused"} { the three }

A group is placed, costed and given to a kernel as one, and its intermediate values need
no memory. Its body still calls the composites inside, so a target may choose kernels for
those, and inlining gives back exactly the program there was. Nothing is grouped across
pins, or with an operation that may go to other devices.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.passes import graph as graphs
from lemurc.passes import system as systems
from lemurc.passes.apart import APART, reasons
from lemurc.passes.attributes import attribute
from lemurc.passes.base import Pass
from lemurc.passes.clone_nodes import (
    clone_nodes,
    create_function,
    function_type,
    inputs_of,
    outputs_of,
)
from lemurc.passes.fuse_groups import Home, form_groups
from lemurc.passes.graph import Graph
from lemurc.passes.legality import Functions, Legality, path_of
from lemurc.passes.stage_groups import stage_edges, topological
from lemurc.passes.unused import is_used


@dataclass(frozen=True)
class Fuse(Pass):
    """`horizontal`: also group products of one input with several weights.

    `explain`: write `lemur.apart` on each operation, why it is not in one group with those it
    reads and those that read it.
    """

    name: ClassVar[str] = "fuse"
    optional: ClassVar[bool] = True

    horizontal: bool = True
    explain: bool = False

    def run(self, module: ir.Operation) -> None:
        system = systems.read(module)
        functions = graphs.bodies(module)
        legality = Legality(system, functions)

        def home(op: ir.Operation) -> Home:
            placed = op.attributes["lemur.device"].value if "lemur.device" in op.attributes else ""
            legal = tuple(d.name for d in system.devices if not legality.why_not(op, d))
            return Home(legality.pin(op), str(placed), legal)

        for entry in graphs.entries(module):
            graph = Graph(entry)
            grouping = form_groups(graph, functions, home, self.horizontal)
            groups = grouping.groups()
            apart = reasons(graph, grouping, functions) if self.explain else {}
            calls = outline_groups(module, graph, groups, functions)
            for index, why in apart.items():
                op = calls[index] if index in calls else graph.nodes[index]
                op.attributes[APART] = attribute(why)


def _make_contiguous(graph: Graph, groups: Sequence[Sequence[int]]) -> None:
    """Reorder the block so that a group's members stand together."""
    leader = {index: index for index in graph.placeable}
    for group in groups:
        leader.update(dict.fromkeys(group, group[0]))
    place = {index: node for node, index in enumerate(graph.placeable)}
    before = [
        {place[graph.producer[value]] for value in graph.needs[index] if value in graph.producer}
        for index in graph.placeable
    ]
    order = topological(stage_edges([leader[index] for index in graph.placeable], before))
    members: dict[int, list[int]] = {number: [] for number in order}
    for index in graph.placeable:
        members[leader[index]].append(index)
    graphs.reorder(graph, [index for number in order for index in members[number]])


def outline_groups(
    module: ir.Operation,
    graph: Graph,
    groups: Sequence[Sequence[int]],
    functions: dict[str, ir.Operation],
) -> dict[int, ir.Operation]:
    """The call made of each group, by its first node.

    Old values stay until every call is made: a group may read another's.
    """
    if not groups:
        return {}
    _make_contiguous(graph, groups)
    replaced: list[tuple[ir.Value, ir.Value]] = []
    calls = {}
    for group in groups:
        made, call = _outline(module, graph, group, functions)
        replaced += made
        calls[group[0]] = call
    for old, new in replaced:
        old.replace_all_uses_with(new)
    fused = {index for group in groups for index in group}
    position = _position(graph)
    # one sweep from the end: a size (free) reads a fused value, a fused value reads a size
    for index in sorted(
        range(len(graph.nodes)), key=lambda index: position(graph.nodes[index]), reverse=True
    ):
        if not is_used(graph.nodes[index]) and (index in fused or graph.free[index]):
            graph.nodes[index].erase()
    return calls


def _position(graph: Graph) -> Callable[[ir.Operation], int]:
    standing = {op.operation: place for place, op in enumerate(graph.block.operations)}
    return lambda op: standing[op]


def _outline(
    module: ir.Operation,
    graph: Graph,
    group: Sequence[int],
    functions: dict[str, ir.Operation],
) -> tuple[list[tuple[ir.Value, ir.Value]], ir.Operation]:
    """Make the composite and its call; what to replace by what, and the call."""
    inputs, outputs = inputs_of(graph, group), outputs_of(graph, group)
    last = graph.nodes[group[-1]]
    name = _fresh(functions)
    with ir.Location.unknown():
        function = create_function(
            name, function_type(inputs, outputs), module.regions[0].blocks[0]
        )
    function.attributes["sym_visibility"] = ir.StringAttr.get("private")
    function.attributes["lemur.composite"] = ir.StringAttr.get("fused")
    paths = [path_of(graph.nodes[index], functions) for index in group]
    function.attributes["lemur.module_path"] = ir.StringAttr.get(_common(paths))
    function.attributes["no_inline"] = ir.UnitAttr.get()
    clone_nodes(graph, group, inputs, outputs, function.regions[0].blocks[0])
    functions[name] = function
    with ir.InsertionPoint(last):
        call = ir.Operation.create(
            "func.call",
            results=[value.type for value in outputs],
            operands=inputs,
            attributes={
                "callee": ir.FlatSymbolRefAttr.get(name),
                "no_inline": ir.UnitAttr.get(),
            },
            loc=graph.nodes[group[0]].location,
        )
    return list(zip(outputs, call.results, strict=True)), call


def _common(paths: Sequence[str]) -> str:
    """The innermost module that all of `paths` are in; the first path when there is none."""
    known = [path.split(".") for path in paths if path]
    shared = []
    for parts in zip(*known, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared) or next((path for path in paths if path), "")


def _fresh(functions: Functions) -> str:
    number = 0
    while f"fused_{number}" in functions:
        number += 1
    return f"fused_{number}"
