"""From a costed function and a system to the placement problem."""

from collections.abc import Mapping, Sequence

from torch_mlir import ir

from lemurc.cost_model import seconds
from lemurc.manifest import Workload
from lemurc.passes.graph import Graph
from lemurc.passes.placement import Problem, Tensor, Weight
from lemurc.passes.sizes import Sizes
from lemurc.passes.system import Device, System
from lemurc.passes.workloads import contraction, costs, workload

_RESERVE = 1.05
"""Memory that plans leave free, since what code allocates is not known before there is any."""
_TILES = (1, 6, 8, 16)
"""Rows of packed weights."""

_TYPICAL_BYTES = 1 << 20
"""The problem is linear in the bytes that cross; this size says at which rate."""


def build(
    graph: Graph,
    system: System,
    functions: Mapping[str, ir.Operation],
    allowed: Sequence[Sequence[str]],
    objective: str = "latency",
) -> Problem:
    """Nodes of the problem are `graph.placeable`, in order."""
    number = {device.name: index for index, device in enumerate(system.devices)}
    place = {index: node for node, index in enumerate(graph.placeable)}
    ops = [graph.nodes[index] for index in graph.placeable]
    sizes = Sizes(graph.function)
    devices = system.devices
    # What arrives begins another stage.
    begun = [device.figures.slowdown * device.figures.call for device in devices]
    links = [[system.link(a.name, b.name) for b in devices] for a in devices]
    return Problem(
        allowed=[[number[name] for name in names] for names in allowed],
        seconds=[_seconds(workload(op, sizes, functions), devices) for op in ops],
        tensors=_tensors(graph, sizes, place, _host_number(system)),
        latency=[
            [link.latency + stage for link, stage in zip(row, begun, strict=True)] for row in links
        ],
        per_byte=[[1.0 / link.rate(_TYPICAL_BYTES) for link in row] for row in links],
        weights=[
            Weight(size, tuple(place[user] for user in users))
            for value in graph.users
            if graph.is_weight(value)
            for size, users in copies(graph, value, sizes, functions).values()
        ],
        live=[held_bytes(costs(op)["live_bytes"]) for op in ops],
        memory=[d.memory if d.memory is None else int(d.memory / _RESERVE) for d in devices],
        objective=objective,
    )


def copies(
    graph: Graph, value: ir.Value, sizes: Sizes, functions: Mapping[str, ir.Operation]
) -> dict[bool, tuple[int, list[int]]]:
    """The bytes of a weight and the nodes that read it, by whether they multiply matrices.

    Those may want it packed for them: in whole tiles, and then there are two of it.
    """
    size = sizes.bytes(value)
    readers: dict[bool, list[int]] = {}
    for user in graph.users[value]:
        product = bool(contraction(graph.nodes[user], sizes, functions))
        readers.setdefault(product, []).append(user)
    return {
        product: (_packed(size, value) if product else size, n) for product, n in readers.items()
    }


def _packed(size: int, weight: ir.Value) -> int:
    """With rows up to whole tiles, whichever of the usual heights pads most."""
    if not isinstance(weight.type, ir.RankedTensorType) or weight.type.rank < 2:
        return size
    rows: int = max(1, weight.type.shape[0])
    return size // rows * max(-(-rows // tile) * tile for tile in _TILES)


def held_bytes(live: int) -> int:
    """The memory that so many live bytes take: a stage has its inputs and results from its
    start to its end, and lifetimes inside overlap. Over test/zoo.py it was 1.3 to 1.9 times of a
    whole model, and up to 2.8 times of the stages of one that is cut."""
    return 3 * live


def host_of(system: System) -> str | None:
    """Where inputs come from and results go: the first CPU, if the system has one."""
    return next((device.name for device in system.devices if device.target == "cpu"), None)


def _host_number(system: System) -> int | None:
    name = host_of(system)
    return None if name is None else system.names().index(name)


def _tensors(
    graph: Graph, sizes: Sizes, place: Mapping[int, int], host: int | None
) -> list[Tensor]:
    """Inputs, and results that someone needs. State stays where it is updated: whoever
    reads it in the next call reads the value that this call leaves."""
    updated = state_updates(graph)
    tensors = []
    for value, users in graph.users.items():
        if graph.is_weight(value) or graph.reference(value).startswith("state:"):
            continue
        readers = [place[user] for user in users]
        producer = graph.producer.get(value)
        returned = value in graph.returned and value not in updated
        for state in updated.get(value, ()):
            readers += [place[user] for user in graph.users[state]]
        if readers or returned:
            tensors.append(
                Tensor(
                    size=sizes.bytes(value),
                    producer=None if producer is None else place[producer],
                    home=host if producer is None else None,
                    readers=tuple(dict.fromkeys(readers)),
                    read_by_host=host if returned else None,
                )
            )
    return tensors


def state_updates(graph: Graph) -> dict[ir.Value, list[ir.Value]]:
    """Returned value -> the state arguments it replaces."""
    if "res_attrs" not in graph.function.attributes:
        return {}
    states = {name: value for value, name in graph.arguments.items()}
    updates: dict[ir.Value, list[ir.Value]] = {}
    results = graph.function.attributes["res_attrs"]
    for value, attributes in zip(graph.terminator.operands, results, strict=True):
        if "lemur.state_update" in attributes:
            state = states.get(f"state:{attributes['lemur.state_update'].value}")
            updates.setdefault(value, []).extend([] if state is None else [state])
    return updates


def _seconds(work: Workload | None, devices: Sequence[Device]) -> list[float]:
    return [0.0 if work is None else seconds(work, device.figures) for device in devices]
