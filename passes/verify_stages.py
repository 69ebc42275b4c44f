"""What must hold of stages: one device each, no cycles, signatures that agree."""

from collections.abc import Iterator

from torch_mlir import ir

from lemurc.passes import graph as graphs
from lemurc.passes.graph import Graph
from lemurc.passes.stage_groups import has_cycle, stage_edges

Finding = tuple[ir.Location, str]


def find_in_staged(entry: ir.Operation) -> Iterator[Finding]:
    """Before `outline-stages`: numbers on operations."""
    graph = Graph(entry)
    nodes = [graph.nodes[index] for index in graph.placeable]
    staged = [op for op in nodes if _is_number(op)]
    if not staged:
        return
    if len(staged) < len(nodes):
        missing = next(op for op in nodes if not _is_number(op))
        yield missing.location, f"'{missing.name}' has no stage, though others do"
        return
    stage = [op.attributes["lemur.stage"].value for op in nodes]
    home: dict[int, str] = {}
    for op, number in zip(nodes, stage, strict=True):
        device = str(op.attributes["lemur.device"]) if "lemur.device" in op.attributes else "none"
        if home.setdefault(number, device) != device:
            yield op.location, f"stage {number} is on {home[number]}, this operation on {device}"
    place = {index: node for node, index in enumerate(graph.placeable)}
    before = [
        {place[graph.producer[value]] for value in graph.needs[index] if value in graph.producer}
        for index in graph.placeable
    ]
    if has_cycle(stage_edges(stage, before)):
        yield entry.location, "stages depend on each other in a cycle: one of them is not convex"
        return
    for op, number, earlier in zip(nodes, stage, before, strict=True):
        late = [stage[node] for node in earlier if stage[node] > number]
        if late:
            yield op.location, f"stage {number} uses a value of stage {late[0]}, which comes later"


def find_in_outlined(module: ir.Operation) -> Iterator[Finding]:
    """After `outline-stages`: modules, declarations and calls."""
    operations = [op.operation for op in module.regions[0].blocks[0].operations]
    stages = {
        str(op.attributes["sym_name"].value): op
        for op in operations
        if op.name == "builtin.module" and "sym_name" in op.attributes
    }
    for stage in stages.values():
        yield from _stage(stage)
    for entry in graphs.entries(module):
        for inner in entry.regions[0].blocks[0].operations:
            op = inner.operation
            if "lemur.stage" in op.attributes and not _is_number(op):
                yield from _call(op, stages)
        yield from _results(entry)


def _stage(stage: ir.Operation) -> Iterator[Finding]:
    for name in ("lemur.device", "lemur.target", "lemur.cost", "lemur.ops"):
        if name not in stage.attributes:
            yield stage.location, f"a stage needs {name}"
    run = _run_of(stage)
    if run is None:
        yield stage.location, "a stage needs a function @run"
        return
    attributes = list(run.attributes["arg_attrs"]) if "arg_attrs" in run.attributes else []
    for number in range(len(run.regions[0].blocks[0].arguments)):
        marks = ("lemur.value", "lemur.param")
        if number >= len(attributes) or sum(mark in attributes[number] for mark in marks) != 1:
            yield run.location, f"argument {number} of a stage is a lemur.value or a lemur.param"


def _call(op: ir.Operation, stages: dict[str, ir.Operation]) -> Iterator[Finding]:
    reference = op.attributes["lemur.stage"]
    if not isinstance(reference, ir.FlatSymbolRefAttr) or reference.value not in stages:
        yield op.location, f"calls stage {reference}, which is not there"
        return
    run = _run_of(stages[reference.value])
    if run is None:
        return
    kind = run.attributes["function_type"].value
    given = ir.FunctionType.get(
        [value.type for value in op.operands], [value.type for value in op.results]
    )
    if kind != given:
        yield op.location, f"stage @{reference.value} is {kind}, but is called as {given}"


def _results(entry: ir.Operation) -> Iterator[Finding]:
    if "lemur.results" not in entry.attributes:
        return
    names = len(entry.attributes["lemur.results"])
    results = len(entry.attributes["function_type"].value.results)
    if names != results:
        yield entry.location, f"lemur.results names {names} values, the function has {results}"


def _run_of(stage: ir.Operation) -> ir.Operation | None:
    for function in graphs.functions(stage):
        if graphs.symbol(function) == "run":
            return function
    return None


def _is_number(op: ir.Operation) -> bool:
    return "lemur.stage" in op.attributes and isinstance(
        op.attributes["lemur.stage"], ir.IntegerAttr
    )
