"""What a plan needs of each device's memory, call by call of a partitioned entry.

The runtime keeps a value on each device that has it until the last stage that reads it has
run, and results until the end: inputs where they are read, what stages return, what crosses.
While a stage runs, its temporaries come on top; IREE fuses some of them away, so that part is
an upper bound.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from torch_mlir import ir

from lemurc.manifest import DeviceMemory, StepMemory
from lemurc.passes import graph as graphs
from lemurc.passes.graph import Graph
from lemurc.passes.liveness import temporaries
from lemurc.passes.placement_problem import copies
from lemurc.passes.sizes import Sizes


def predict_memory(
    graph: Graph, sizes: Sizes, stages: Sequence[ir.Operation]
) -> tuple[dict[str, DeviceMemory], tuple[StepMemory, ...]]:
    """`stages` are the modules that the calls of `graph` name, in order: the memory of each
    device, and what each step finds and takes there."""
    held: dict[str, set[ir.Value]] = defaultdict(set)
    weights: dict[str, dict[tuple[ir.Value, bool], int]] = defaultdict(dict)
    left = Counter(value for call in graph.nodes for value in set(call.operands))
    left.update(graph.returned)
    most: dict[str, int] = defaultdict(int)
    steps: list[StepMemory] = []
    for call, stage in zip(graph.nodes, stages, strict=True):
        device = str(stage.attributes["lemur.device"].value)
        read = _weights(graph, call, stage, sizes)
        weights[device].update(read)
        values = {value for value in (*call.operands, *call.results) if not graph.is_weight(value)}
        held[device] |= values
        peak = _bytes(held[device], sizes)
        shapes = sizes.shapes(call.operands)
        peak += temporaries(run_of(stage), shapes, graphs.bodies(stage))
        most[device] = max(most[device], peak)
        left.subtract(set(call.operands))
        for there in held.values():
            there -= {value for value in there if left[value] <= 0}
        steps.append(StepMemory(sum(read.values()), _bytes(held[device], sizes), peak))
    devices = {
        name: DeviceMemory(sum(weights[name].values()), activations)
        for name, activations in most.items()
    }
    return devices, tuple(steps)


def run_of(stage: ir.Operation) -> ir.Operation:
    """The function of a stage that its callers call."""
    return next(op for op in graphs.functions(stage) if graphs.symbol(op) == "run")


def _weights(
    graph: Graph, call: ir.Operation, stage: ir.Operation, sizes: Sizes
) -> dict[tuple[ir.Value, bool], int]:
    """The bytes of each weight that a stage reads, for products of matrices and for the rest."""
    run = run_of(stage)
    inside, functions = Graph(run), graphs.bodies(stage)
    inner = Sizes(run, sizes.shapes(call.operands))
    return {
        (value, product): size
        for value, argument in zip(call.operands, inside.arguments, strict=True)
        if graph.is_weight(value)
        for product, (size, _) in copies(inside, argument, inner, functions).items()
    }


def _bytes(values: set[ir.Value], sizes: Sizes) -> int:
    return sum(sizes.bytes(value) for value in values)
