"""From a costed function and a system to the placement problem."""

from collections.abc import Mapping, Sequence

from torch_mlir import ir

from lemurc.errors import InternalError
from lemurc.passes.graph import VIEWS, Graph
from lemurc.passes.placement import Problem, Tensor, Weight
from lemurc.passes.sizes import Sizes
from lemurc.passes.system import Device, System


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
    links = [[system.link(a.name, b.name) for b in devices] for a in devices]
    return Problem(
        allowed=[[number[name] for name in names] for names in allowed],
        seconds=[[seconds_on(op, device) for device in devices] for op in ops],
        tensors=_tensors(graph, sizes, place, _host_number(system)),
        latency=[[link.latency for link in row] for row in links],
        per_byte=[[1.0 / link.bandwidth for link in row] for row in links],
        weights=[
            Weight(sizes.bytes(value), tuple(place[user] for user in users))
            for value, users in graph.users.items()
            if graph.is_weight(value) and users
        ],
        live=[_cost(op)["live_bytes"] for op in ops],
        memory=[device.memory for device in devices],
        objective=objective,
    )


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


def seconds_on(op: ir.Operation, device: Device) -> float:
    """The roofline, plus one launch; views are free."""
    if op.name in VIEWS or len(op.results) == 0:
        return 0.0
    cost = _cost(op)
    compute = cost["flops"] / device.peak(_dtype(op))
    memory = (cost["bytes_read"] + cost["bytes_written"]) / device.bandwidth
    return max(compute, memory) + device.launch


def _dtype(op: ir.Operation) -> str:
    """The type an operation computes in: its widest input that is not an index."""
    types = [
        str(value.type.element_type)
        for value in (*op.operands, *op.results)
        if isinstance(value.type, ir.ShapedType)
    ]
    floats = [name for name in types if "f" in name]
    return (floats or types or ["f32"])[0]


def _cost(op: ir.Operation) -> dict[str, int]:
    if "lemur.cost" not in op.attributes:
        raise InternalError(
            f"'{op.name}' has no 'lemur.cost'", hint="run annotate-cost before this pass"
        )
    return {named.name: named.attr.value for named in op.attributes["lemur.cost"]}
