"""Gather the operations of one device into as few stages as dependences allow.

    {lemur.device = "cpu"}            {lemur.device = "cpu",  lemur.stage = 0}
    {lemur.device = "cuda"}      ->   {lemur.device = "cuda", lemur.stage = 1}
    {lemur.device = "cpu"}            {lemur.device = "cpu",  lemur.stage = 2}

First, an operation whose inputs are smaller than its result (a mask broadcast from a
row, a table made of weights alone) is cloned onto each device that reads it: computing
it again is cheaper than shipping it.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.manifest import HOST
from lemurc.passes import graph as graphs
from lemurc.passes import system as systems
from lemurc.passes.annotate_cost import names_attribute
from lemurc.passes.base import Pass
from lemurc.passes.graph import Graph
from lemurc.passes.host_calls import is_host_call
from lemurc.passes.legality import Functions, Legality
from lemurc.passes.sizes import Sizes
from lemurc.passes.stage_groups import group, split


@dataclass(frozen=True)
class FormStages(Pass):
    """`clone`: whether cheap producers are cloned. `max_flops`: how much work is cheap.

    `largest`: the most operations a stage may hold, views aside; 0 is no limit.
    """

    name: ClassVar[str] = "form-stages"

    clone: bool = True
    max_flops: int = 1_000_000
    largest: int = 0

    def run(self, module: ir.Operation) -> None:
        system = systems.read(module)
        functions = graphs.bodies(module)
        for entry in graphs.entries(module):
            if self.clone and len(system.devices) > 1:
                self._clone_cheap_producers(entry, system, functions)
            number_stages(entry, self.largest)

    def _clone_cheap_producers(
        self, entry: ir.Operation, system: systems.System, functions: Functions
    ) -> None:
        legality = Legality(system, functions)
        sizes = Sizes(entry)
        for op in reversed(Graph(entry).nodes):
            if not self._is_cheap(op, sizes) or legality.pin(op):
                continue
            home = device_of(op)
            readers = _direct_readers(op, entry)
            for name in sorted({device_of(reader) for reader in readers} - {home, ""}):
                if not legality.why_not(op, system.device(name)):
                    _clone_onto(op, name, [r for r in readers if device_of(r) == name])
            if readers and not any(True for result in op.results for _ in result.uses):
                op.erase()

    def _is_cheap(self, op: ir.Operation, sizes: Sizes) -> bool:
        if not op.name.startswith(("linalg.", "tensor.")) or "lemur.cost" not in op.attributes:
            return False
        if op.attributes["lemur.cost"]["flops"].value > self.max_flops:
            return False
        shipped = sum(sizes.bytes(v) for v in graphs.values_read(op) if _must_be_shipped(v))
        return shipped < sum(sizes.bytes(result) for result in op.results)


def number_stages(entry: ir.Operation, largest: int = 0) -> None:
    """Set `lemur.stage` on every placed operation."""
    graph = Graph(entry)
    place = {index: node for node, index in enumerate(graph.placeable)}
    devices = [_group_of(graph.nodes[index], index) for index in graph.placeable]
    i64 = ir.IntegerType.get_signless(64)
    stages = group(devices, [{place[p] for p in before} for before in predecessors(graph)])
    if largest:
        views = [graph.nodes[index].name in graphs.VIEWS for index in graph.placeable]
        stages = split(stages, views, largest)
    for index, number in zip(graph.placeable, stages, strict=True):
        graph.nodes[index].attributes["lemur.stage"] = ir.IntegerAttr.get(i64, number)


def predecessors(graph: Graph) -> list[set[int]]:
    """Per placeable node, the placeable nodes whose results it needs."""
    return [
        {graph.producer[value] for value in graph.needs[index] if value in graph.producer}
        for index in graph.placeable
    ]


def _group_of(op: ir.Operation, index: int) -> str:
    """What may share a stage: operations of one device; PyTorch runs each operator by itself."""
    return f"{HOST}/{index}" if is_host_call(op) else device_of(op)


def device_of(op: ir.Operation) -> str:
    return str(op.attributes["lemur.device"].value) if "lemur.device" in op.attributes else ""


def _must_be_shipped(value: ir.Value) -> bool:
    """Not a weight, nor something free such as an empty tensor or a constant."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        function = owner.owner.operation
        number = list(owner.arguments).index(value)
        return "arg_attrs" not in function.attributes or (
            "lemur.param" not in function.attributes["arg_attrs"][number]
        )
    return "lemur.device" in owner.operation.attributes and isinstance(value.type, ir.ShapedType)


def _direct_readers(op: ir.Operation, entry: ir.Operation) -> list[ir.Operation]:
    """Operations of the function's own block that read a result, themselves or in a region."""
    block = entry.regions[0].blocks[0]
    found: dict[ir.Operation, None] = {}
    for result in op.results:
        for use in result.uses:
            reader = use.owner.operation
            while reader.block != block:
                reader = reader.parent.operation
            found[reader] = None
    return list(found)


def _clone_onto(op: ir.Operation, device: str, readers: list[ir.Operation]) -> None:
    clone = op.clone(ir.InsertionPoint(op)).operation
    clone.move_after(op)
    clone.attributes["lemur.device"] = ir.StringAttr.get(device)
    clone.attributes["lemur.values"] = names_attribute(
        [f"{name.value}@{device}" for name in op.attributes["lemur.values"]]
    )
    replaced = dict(zip(op.results, clone.results, strict=True))

    for reader in readers:
        graphs.remap(reader, replaced)
