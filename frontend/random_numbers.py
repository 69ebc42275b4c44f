"""Random numbers: where the generator stands is state of the model.

    forward(self, x): return dropout(x)

    func.func @main(%s {lemur.state = "random_state"}, %x {lemur.input = 0 : i64})
        -> (tensor {lemur.state_update = "random_state"}, tensor {lemur.output = 0 : i64})

The result of the new state is the argument until `thread-random-state` has seen what
torch-mlir makes of the draws.
"""

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Node

from lemurc.frontend.graph_edits import fake_mode, output_node
from lemurc.frontend.signature import input_positions
from lemurc.manifest import RANDOM_STATE


def draws(program: ExportedProgram) -> bool:
    """Whether a call of `program` draws random numbers."""
    return any(draws_numbers(node) for node in program.graph.nodes)


def random_results(program: ExportedProgram) -> tuple[int, ...]:
    """Which tensors of a call depend on draws: its results, then the inputs it changes."""
    random: set[Node] = set()
    for node in program.graph.nodes:
        if draws_numbers(node) or not random.isdisjoint(node.all_input_nodes):
            random.add(node)
    names = {node.name for node in random}
    specs = program.graph_signature.output_specs
    results = [
        spec.arg.name
        for spec in specs
        if spec.kind is OutputKind.USER_OUTPUT and not isinstance(spec.arg, ConstantArgument)
    ]
    positions = input_positions(program)
    updates = {
        positions[str(spec.target)]: spec.arg.name
        for spec in specs
        if spec.kind is OutputKind.USER_INPUT_MUTATION
    }
    ordered = [*results, *(updates[position] for position in sorted(updates))]
    return tuple(index for index, name in enumerate(ordered) if name in names)


def add_random_state(program: ExportedProgram, position: torch.Tensor) -> None:
    """Make `position`, one int64, a buffer that each call changes."""
    graph = program.graph
    first = next(iter(graph.nodes))
    with graph.inserting_before(first):
        node = graph.placeholder(RANDOM_STATE)
    with fake_mode(graph):
        node.meta["val"] = torch.zeros((), dtype=torch.int64)
    argument = TensorArgument(name=node.name)
    signature = program.graph_signature
    signature.input_specs.insert(
        0, InputSpec(InputKind.BUFFER, argument, RANDOM_STATE, persistent=True)
    )
    signature.output_specs.insert(0, OutputSpec(OutputKind.BUFFER_MUTATION, argument, RANDOM_STATE))
    output = output_node(program)
    output.args = ((node, *output.args[0]),)  # type: ignore[misc]
    program.state_dict[RANDOM_STATE] = position


def draws_numbers(node: Node) -> bool:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    if torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    values = {argument.name: argument.default_value for argument in target._schema.arguments}
    values |= dict(zip(values, node.args, strict=False)) | node.kwargs
    # Attention, recurrent layers and dropout carry the tag whether they drop values or not.
    if any(values.get(name) is False for name in ("train", "training")):
        return False
    return not any(values.get(name) == 0 for name in ("dropout_p", "dropout"))
