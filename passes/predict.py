"""What the cost model expects of one call of each entry of a partitioned module."""

from collections import defaultdict
from collections.abc import Callable

from torch_mlir import ir

from lemurc.cost_model import stage_seconds
from lemurc.manifest import Prediction
from lemurc.passes import graph as graphs
from lemurc.passes import system as systems
from lemurc.passes import workloads
from lemurc.passes.graph import Graph
from lemurc.passes.placement_problem import copies, held_bytes, host_of, state_updates
from lemurc.passes.sizes import Sizes

Measured = Callable[[ir.Operation], float | None]
"""The time that a stage took where it was profiled, by its module."""


def predict(
    module: ir.Module | ir.Operation, measured: Measured = lambda stage: None
) -> dict[str, Prediction]:
    """Per entry: the time of its stages one after another, and of what crosses between them.

    A value is sent once to each device that reads it; inputs start on the host and
    results return there: to the CPU of the system, or to memory that is nobody's.
    """
    operation = module.operation
    system = systems.read(operation)
    stages = {
        graphs.symbol(op.operation): op.operation
        for op in operation.regions[0].blocks[0].operations
        if op.operation.name == "builtin.module"
    }
    return {
        graphs.symbol(entry): _predict(Graph(entry), system, stages, measured)
        for entry in graphs.entries(operation)
    }


def _predict(
    graph: Graph, system: systems.System, stages: dict[str, ir.Operation], measured: Measured
) -> Prediction:
    host = host_of(system) or systems.HOST_MEMORY
    sizes = Sizes(graph.function)
    seconds: defaultdict[str, float] = defaultdict(float)
    where: dict[ir.Value, str | None] = {
        value: host for value, name in graph.arguments.items() if name.startswith("input:")
    }
    wanted: dict[ir.Value, set[str]] = defaultdict(set)
    steps: list[float] = []
    weights: defaultdict[str, dict[tuple[str, bool], int]] = defaultdict(dict)
    live: defaultdict[str, int] = defaultdict(int)
    for call in graph.nodes:
        stage = stages[str(call.attributes["lemur.stage"].value)]
        device = str(stage.attributes["lemur.device"].value)
        took = measured(stage)
        figures = system.device(device).figures
        steps.append(stage_seconds(workloads.read(stage), figures) if took is None else took)
        seconds[device] += steps[-1]
        weights[device].update(_weights(stage))
        live[device] = max(live[device], workloads.costs(stage)["live_bytes"])
        where.update(dict.fromkeys(call.results, device))
        for value in call.operands:
            wanted[value].add(device)
    for value, states in state_updates(graph).items():
        for state in states:
            wanted[value] |= wanted[state]
    kept = state_updates(graph)
    for value in graph.returned:
        if value not in kept:
            wanted[value].add(host)
    transfer_seconds, moved, crossings = 0.0, 0, 0
    for value, readers in wanted.items():
        source = where.get(value)
        if source is None:
            continue
        for reader in sorted(readers - {source}):
            size = sizes.bytes(value)
            transfer_seconds += system.link(source, reader).seconds(size)
            moved += size
            crossings += 1
    return Prediction(
        seconds=sum(seconds.values()) + transfer_seconds,
        transfer_bytes=moved,
        crossings=crossings,
        seconds_by_device=dict(seconds),
        seconds_by_step=tuple(steps),
        bytes_by_device={
            device: sum(weights[device].values()) + held_bytes(live[device]) for device in live
        },
    )


def _weights(stage: ir.Operation) -> dict[tuple[str, bool], int]:
    """Bytes of the weights that a stage reads, by name and use."""
    functions = graphs.bodies(stage)
    run = next(op for op in graphs.functions(stage) if graphs.symbol(op) == "run")
    graph, sizes = Graph(run), Sizes(run)
    return {
        (name, product): sizes.bytes(value)
        for value, name in graph.arguments.items()
        if graph.is_weight(value)
        for product in copies(graph, value, sizes, functions)
    }
