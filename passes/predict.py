"""What the cost model expects of one call of each entry of a partitioned module."""

from collections import defaultdict
from collections.abc import Callable

from torch_mlir import ir

from lemurc.cost_model import stage_seconds
from lemurc.manifest import DeviceMemory, OrderMemory, Prediction, Transfer
from lemurc.passes import graph as graphs
from lemurc.passes import system as systems
from lemurc.passes import workloads
from lemurc.passes.graph import Graph
from lemurc.passes.micro_batch import parts_of
from lemurc.passes.placement_problem import host_of, state_updates
from lemurc.passes.predict_memory import predict_memory, run_of
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
    names = dict(graph.arguments)
    wanted: dict[ir.Value, dict[str, int]] = defaultdict(dict)
    steps: list[float] = []
    called = [stages[str(call.attributes["lemur.stage"].value)] for call in graph.nodes]
    for number, (call, stage) in enumerate(zip(graph.nodes, called, strict=True)):
        device = str(stage.attributes["lemur.device"].value)
        took = measured(stage)
        figures = system.device(device).figures
        steps.append(stage_seconds(workloads.read(stage), figures) if took is None else took)
        seconds[device] += steps[-1]
        where.update(dict.fromkeys(call.results, device))
        names.update(zip(call.results, _result_names(stage), strict=True))
        for value in call.operands:
            wanted[value].setdefault(device, number)
    kept = state_updates(graph)
    for value, states in kept.items():
        for state in states:
            for device in list(wanted[state]):
                wanted[value].setdefault(device, len(steps))
    for value in graph.returned:
        if value not in kept:
            wanted[value].setdefault(host, len(steps))
    transfers = [
        Transfer(
            value=names[value],
            source=source,
            target=reader,
            bytes=sizes.bytes(value),
            seconds=system.link(source, reader).seconds(sizes.bytes(value)),
            before=number,
        )
        for value, readers in wanted.items()
        for reader, number in sorted(readers.items())
        if (source := where.get(value)) is not None and reader != source
    ]
    memory, memory_by_step = predict_memory(graph, sizes, called)
    count = parts_of(graph.function)
    if count > 1:
        # As many as the runtime has in flight; each waits where the busiest device is.
        held = min(count, len(seconds) + 1)
        memory = {
            name: DeviceMemory(device.weights, held * device.activations)
            for name, device in memory.items()
        }
    one = sum(seconds.values()) + sum(transfer.seconds for transfer in transfers)
    return Prediction(
        seconds=one + (count - 1) * max(seconds.values(), default=0.0),
        transfer_bytes=count * sum(transfer.bytes for transfer in transfers),
        crossings=count * len(transfers),
        seconds_by_device={name: count * taken for name, taken in seconds.items()},
        seconds_by_step=tuple(steps),
        transfers=tuple(transfers),
        memory=memory,
        memory_by_step=memory_by_step,
        order=_order(graph.function),
    )


def _order(entry: ir.Operation) -> OrderMemory | None:
    if "lemur.schedule" not in entry.attributes:
        return None
    found = {item.name: item.attr.value for item in entry.attributes["lemur.schedule"]}
    return OrderMemory(found["peak_bytes"], found["program_bytes"], found["bound_bytes"])


def _result_names(stage: ir.Operation) -> list[str]:
    run = run_of(stage)
    if "res_attrs" not in run.attributes:
        return []
    return [str(item["lemur.value"].value) for item in run.attributes["res_attrs"]]
