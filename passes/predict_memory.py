"""What a plan needs of each device's memory, call by call of a partitioned entry.

The runtime keeps every value of a call until its end, on each device that has it: inputs
where they are read, what stages return, what crosses. While a stage runs, its temporaries
come on top; IREE fuses some of them away, so that part is an upper bound.
"""

from collections import defaultdict
from collections.abc import Sequence

from torch_mlir import ir

from lemurc.manifest import DeviceMemory, StepMemory
from lemurc.passes import graph as graphs
from lemurc.passes.graph import Graph
from lemurc.passes.liveness import Buffers
from lemurc.passes.sizes import Sizes


def predict_memory(
    graph: Graph, sizes: Sizes, stages: Sequence[ir.Operation]
) -> tuple[dict[str, DeviceMemory], tuple[StepMemory, ...]]:
    """`stages` are the modules that the calls of `graph` name, in order: the memory of each
    device, and what each step finds and takes there."""
    held: dict[str, set[ir.Value]] = defaultdict(set)
    weights: dict[str, set[ir.Value]] = defaultdict(set)
    most: dict[str, int] = defaultdict(int)
    steps: list[StepMemory] = []
    for call, stage in zip(graph.nodes, stages, strict=True):
        device = str(stage.attributes["lemur.device"].value)
        read = {value for value in call.operands if graph.is_weight(value)}
        weights[device] |= read
        held[device] |= {*call.operands, *call.results} - read
        now = _bytes(held[device], sizes)
        peak = now + _temporaries(stage, [_shape(value, sizes) for value in call.operands])
        most[device] = max(most[device], peak)
        steps.append(StepMemory(_bytes(read, sizes), now, peak))
    devices = {
        name: DeviceMemory(_bytes(weights[name], sizes), activations)
        for name, activations in most.items()
    }
    return devices, tuple(steps)


def run_of(stage: ir.Operation) -> ir.Operation:
    """The function of a stage that its callers call."""
    return next(op for op in graphs.functions(stage) if graphs.symbol(op) == "run")


def _temporaries(stage: ir.Operation, shapes: Sequence[Sequence[int]]) -> int:
    run = run_of(stage)
    graph = Graph(run)
    return max(Buffers(graph, Sizes(run, shapes)).temporary(graph.placeable), default=0)


def _shape(value: ir.Value, sizes: Sizes) -> Sequence[int]:
    return sizes.shape(value) if isinstance(value.type, ir.RankedTensorType) else []


def _bytes(values: set[ir.Value], sizes: Sizes) -> int:
    return sum(sizes.bytes(value) for value in values)
