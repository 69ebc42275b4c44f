"""The dataflow graph of one entry function, as the partitioning passes see it.

A node is an operation of the function's one block. A node is *free* when every
place that needs its result can compute it again for nothing: constants, empty
tensors, fills, sizes and other scalars. Free nodes have no device; they are cloned
where they are used, so what a node `needs` looks through them. What the caller or PyTorch
reads must be computed by a stage, so it is never free.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from torch_mlir import ir

from lemurc.passes.host_calls import is_host_call

FREE = frozenset({"arith.constant", "tensor.empty", "linalg.fill", "tensor.splat"})

VIEWS = frozenset(
    {
        "tensor.cast",
        "tensor.collapse_shape",
        "tensor.expand_shape",
        "tensor.reshape",
        "lemur.barrier",
        "lemur.pin",
        "lemur.transfer",
    }
)
"""Operations that give another type or name to the bytes of their first operand."""


def functions(module: ir.Operation) -> list[ir.Operation]:
    """Every function of the module, in order."""
    block = module.regions[0].blocks[0]
    return [op.operation for op in block.operations if op.operation.name == "func.func"]


def entries(module: ir.Operation) -> list[ir.Operation]:
    """The public functions with a body: the program's entry points."""
    return [
        function
        for function in functions(module)
        if "sym_visibility" not in function.attributes and len(function.regions[0].blocks) > 0
    ]


def bodies(module: ir.Operation) -> dict[str, ir.Operation]:
    """The functions with a body, by symbol; operators on the host have none."""
    return {
        symbol(function): function
        for function in functions(module)
        if len(function.regions[0].blocks) > 0
    }


def composites(module: ir.Operation) -> dict[str, ir.Operation]:
    """The private functions marked `lemur.composite`, by symbol."""
    return {
        symbol(function): function
        for function in functions(module)
        if "lemur.composite" in function.attributes
    }


def symbol(function: ir.Operation) -> str:
    return str(function.attributes["sym_name"].value)


def callee(op: ir.Operation) -> str:
    """The symbol that a `func.call` calls; "" for any other operation."""
    return str(op.attributes["callee"].value) if op.name == "func.call" else ""


def values_read(op: ir.Operation) -> list[ir.Value]:
    """Distinct values from outside `op` that it or its regions use, in order of use."""
    inside = {id_ for id_ in _values_inside(op)}
    found: dict[ir.Value, None] = {}

    def visit(inner: ir.Operation) -> ir.WalkResult:
        for value in inner.operands:
            if value not in inside:
                found[value] = None
        return ir.WalkResult.ADVANCE

    op.walk(visit, ir.WalkOrder.PRE_ORDER)
    return list(found)


def remap(op: ir.Operation, values: Mapping[ir.Value, ir.Value]) -> None:
    """Make `op` and what is inside it read `values[v]` instead of `v`."""

    def visit(inner: ir.Operation) -> ir.WalkResult:
        for position, value in enumerate(inner.operands):
            if value in values:
                inner.operands[position] = values[value]
        return ir.WalkResult.ADVANCE

    op.walk(visit)


def _values_inside(op: ir.Operation) -> Iterator[ir.Value]:
    for region in op.regions:
        for block in region.blocks:
            yield from block.arguments
            for inner in block.operations:
                yield from inner.operation.results
                yield from _values_inside(inner.operation)


class Graph:
    """Nodes by index; rebuild after changing the function."""

    def __init__(self, function: ir.Operation) -> None:
        self.function = function
        self.block = function.regions[0].blocks[0]
        operations = [op.operation for op in self.block.operations]
        self.nodes: list[ir.Operation] = operations[:-1]
        self.terminator: ir.Operation = operations[-1]
        self.reads = [values_read(op) for op in self.nodes]
        self.producer = {
            result: index for index, op in enumerate(self.nodes) for result in op.results
        }
        self.returned = list(dict.fromkeys(self.terminator.operands))
        outside = {self.producer.get(value) for value in self.returned}
        for op in filter(is_host_call, self.nodes):
            outside.update(self.producer.get(value) for value in op.operands)
        self.free = [index not in outside and is_free(op) for index, op in enumerate(self.nodes)]
        self.arguments: dict[ir.Value, str] = dict(
            zip(self.block.arguments, _argument_references(self), strict=True)
        )

    @cached_property
    def placeable(self) -> list[int]:
        """The nodes that need a device, in order."""
        return [index for index, free in enumerate(self.free) if not free]

    @cached_property
    def needs(self) -> list[list[ir.Value]]:
        """Per node: the arguments and results of placeable nodes it depends on."""
        needs: list[list[ir.Value]] = []
        for reads in self.reads:
            found: dict[ir.Value, None] = {}
            for value in reads:
                index = self.producer.get(value)
                if index is not None and self.free[index]:
                    found.update(dict.fromkeys(needs[index]))
                else:
                    found[value] = None
            needs.append(list(found))
        return needs

    @cached_property
    def users(self) -> dict[ir.Value, list[int]]:
        """Per argument or placeable node's result: the placeable nodes that need it."""
        users: dict[ir.Value, list[int]] = {value: [] for value in self.arguments}
        for index in self.placeable:
            users.update((result, []) for result in self.nodes[index].results)
        for index in self.placeable:
            for value in self.needs[index]:
                users[value].append(index)
        return users

    def is_weight(self, value: ir.Value) -> bool:
        name: str = self.arguments.get(value, "")
        return name.startswith("param:")

    def reference(self, value: ir.Value) -> str:
        """`input:0`, `state:cache`, `param:w`, or the name `annotate-cost` gave: `v7`."""
        if value in self.arguments:
            return self.arguments[value]
        op = self.nodes[self.producer[value]]
        return str(op.attributes["lemur.values"][list(op.results).index(value)].value)


def reorder(graph: Graph, order: Sequence[int]) -> None:
    """Move the operations into `order`; a free one goes before its first reader."""
    moved: set[int] = set()

    def emit(index: int) -> None:
        if index in moved:
            return
        moved.add(index)
        for value in graph.reads[index]:
            source = graph.producer.get(value)
            if source is not None and graph.free[source]:
                emit(source)
        graph.nodes[index].move_before(graph.terminator)

    for index in (*order, *range(len(graph.nodes))):
        emit(index)


def is_free(op: ir.Operation) -> bool:
    """Whether `op` may be computed again wherever its result is read."""
    if op.name in FREE:
        return True
    return len(op.results) > 0 and not any(
        isinstance(result.type, ir.ShapedType) for result in op.results
    )


def _argument_references(graph: Graph) -> list[str]:
    count = len(graph.block.arguments)
    if "arg_attrs" not in graph.function.attributes:
        return [f"input:{index}" for index in range(count)]
    references = []
    for index, attributes in enumerate(graph.function.attributes["arg_attrs"]):
        if "lemur.param" in attributes:
            references.append(f"param:{attributes['lemur.param'].value}")
        elif "lemur.state" in attributes:
            references.append(f"state:{attributes['lemur.state'].value}")
        elif "lemur.input" in attributes:
            references.append(f"input:{attributes['lemur.input'].value}")
        else:
            references.append(f"input:{index}")
    return references
