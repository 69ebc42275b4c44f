"""Parts of an exported program as programs, for finding the operator that goes wrong."""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import GraphModule, Node
from torch.utils import _pytree as torch_pytree


def without_mutation(program: ExportedProgram) -> ExportedProgram:
    """The same program, in operators that change nothing in place."""
    with torch.no_grad():
        functional: ExportedProgram = program.run_decompositions({})
    return functional


def candidates(program: ExportedProgram) -> list[str]:
    """Names of the nodes that compute a tensor, in order."""
    return [
        node.name
        for node in program.graph.nodes
        if node.op == "call_function" and isinstance(node.meta.get("val"), torch.Tensor)
    ]


def up_to(program: ExportedProgram, name: str) -> ExportedProgram:
    """The program whose only result is what the node `name` computes."""
    graph = copy.deepcopy(program.graph)
    node = _named(graph, name)
    output = next(item for item in reversed(graph.nodes) if item.op == "output")
    output.args = ((node,),)
    graph.eliminate_dead_code()
    signature = copy.deepcopy(program.graph_signature)
    inputs = list(signature.input_specs)
    return _program(program, graph, inputs, name, program.call_spec.in_spec, program.example_inputs)


def alone(program: ExportedProgram, name: str) -> ExportedProgram:
    """The program of the node `name` only: what it reads are arguments, as eager has them."""
    values = dict(_values(program, name))
    graph = copy.deepcopy(program.graph)
    node = _named(graph, name)
    inputs: list[InputSpec] = []
    arguments: list[torch.Tensor] = []
    for read in node.all_input_nodes:
        if not isinstance(values[read.name], torch.Tensor):
            raise ValueError(f"{name} reads a number that is computed")
        if read.op != "placeholder":
            with graph.inserting_before(next(iter(graph.nodes))):
                made = graph.placeholder(f"{read.name}_given")
            made.meta = dict(read.meta)
            node.replace_input_with(read, made)
            read = made
        inputs.append(InputSpec(InputKind.USER_INPUT, TensorArgument(name=read.name), None))
        arguments.append(values[read.name.removesuffix("_given")].detach().clone())
    output = next(item for item in reversed(graph.nodes) if item.op == "output")
    output.args = ((node,),)
    for other in reversed(list(graph.nodes)):
        if other not in (node, output) and not other.users:
            graph.erase_node(other)
    order = [item.name for item in graph.nodes if item.op == "placeholder"]
    pairs = sorted(
        zip(inputs, arguments, strict=True), key=lambda pair: order.index(pair[0].arg.name)
    )
    example: Any = (tuple(value for _, value in pairs), {})
    spec = torch_pytree.tree_structure(example)
    return _program(program, graph, [item for item, _ in pairs], name, spec, example)


def _values(program: ExportedProgram, last: str) -> Iterator[tuple[str, Any]]:
    """What eager computes at each node up to `last`, from the example call."""
    args, kwargs = program.example_inputs or ((), {})
    given = program._graph_module_flat_inputs(args, kwargs)
    values: dict[Node, Any] = {}
    placeholders = iter(given)
    for node in program.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(placeholders)
        elif node.op == "get_attr":
            values[node] = getattr(program.graph_module, str(node.target))
        else:
            args, kwargs = torch.fx.node.map_arg(
                (node.args, node.kwargs), lambda item: values[item]
            )
            with torch.no_grad():
                values[node] = node.target(*args, **kwargs)
        yield node.name, values[node]
        if node.name == last:
            return


def _named(graph: torch.fx.Graph, name: str) -> Node:
    return next(node for node in graph.nodes if node.name == name)


def _program(
    program: ExportedProgram,
    graph: torch.fx.Graph,
    inputs: list[InputSpec],
    result: str,
    in_spec: Any,
    example: Any,
) -> ExportedProgram:
    outputs = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(name=result), None)]
    out_spec = torch_pytree.tree_structure(torch.empty(0))
    call = ModuleCallSignature(
        inputs=[spec.arg for spec in inputs if spec.kind is InputKind.USER_INPUT],
        outputs=[outputs[0].arg],
        in_spec=in_spec,
        out_spec=out_spec,
    )
    return ExportedProgram(
        root=GraphModule(program.graph_module, graph),
        graph=graph,
        graph_signature=ExportGraphSignature(inputs, outputs),
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=[ModuleCallEntry("", call)],
        example_inputs=example,
        constants=program.constants,
        verifiers=program.verifiers,
    )
