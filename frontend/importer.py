"""Exported programs to one MLIR module at level `torch`, weights as arguments.

    forward(self, x): return x @ self.w + self.c.add_(1)

    func.func @main(%w {lemur.param = "w"}, %c {lemur.state = "c"}, %x {lemur.input = 0 : i64})
        -> (tensor {lemur.state_update = "c"}, tensor {lemur.output = 0 : i64})

Weights stay out of the IR: a pass over a model of any size costs the same.
"""

from io import BytesIO
from typing import Any

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
from torch_mlir import ir
from torch_mlir.extras.fx_importer import FxImporter

from lemurc.dialects.context import new_context
from lemurc.errors import UnsupportedModelError
from lemurc.frontend.constants import fold_constants, match_numbers
from lemurc.frontend.guards import Guards, add_guards
from lemurc.frontend.loops import prepare_loops
from lemurc.frontend.node_locations import LocatedContextCache
from lemurc.frontend.numbers import return_numbers_as_tensors, spell_floats
from lemurc.frontend.random_numbers import add_random_state, draws, draws_numbers
from lemurc.frontend.refusals import refuse_higher_order_operators
from lemurc.frontend.selections import give_sizes_to_selections
from lemurc.frontend.signature import input_positions, largest_size
from lemurc.frontend.vectors import widen_vectors
from lemurc.frontend.views import rewrite_views
from lemurc.frontend.weights import WeightStore

_STORED = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_STATE_UPDATES = tuple(
    getattr(OutputKind, kind)
    for kind in ("BUFFER_MUTATION", "PARAMETER_MUTATION")
    if hasattr(OutputKind, kind)
)
_Marks = list[dict[str, int | str | list[int]]]


def import_programs(
    programs: dict[str, ExportedProgram], store: WeightStore
) -> tuple[bytes, dict[str, Guards]]:
    """Bytecode of one module, and what guards each entry point.

    Decomposed `programs` are changed on the way.
    """
    guards: dict[str, Guards] = {}
    position = torch.zeros((), dtype=torch.int64)
    for entry_point, program in programs.items():
        if draws(program):
            add_random_state(program, position)
        _find_state(program, store, entry_point)
    importer = FxImporter(context=new_context(), config_check=False)
    importer._cc = LocatedContextCache(importer._c, py_attr_tracker=importer._py_attr_tracker)
    for program in programs.values():
        refuse_higher_order_operators(program)
    for entry_point, program in programs.items():
        _drop_type_assertions(program)
        prepare_loops(program)
        return_numbers_as_tensors(program)
        spell_floats(program)
        give_sizes_to_selections(program)
        guards[entry_point] = add_guards(program)
        rewrite_views(program)
        fold_constants(program)
        match_numbers(program)
        widen_vectors(program)
        positions = input_positions(program)
        arguments = _prepare_inputs(program, store, entry_point)
        results = _prepare_outputs(program, store, entry_point, positions)
        if (flags := guards[entry_point].result) is not None:
            program.graph_signature.output_specs.append(flags)
            results.append({"lemur.checks": 0})
        try:
            function = importer.import_program(program, func_name=entry_point)
        except (AssertionError, KeyError, NotImplementedError, RuntimeError, TypeError) as error:
            reason = str(error).strip() or "no reason given"
            raise UnsupportedModelError(
                f"torch-mlir cannot import the model: {type(error).__name__}: {reason}",
                code="import-failed",
                where=entry_point,
                hint="models with complex, quantized or string values are the usual cause",
            ) from error
        function.attributes["arg_attrs"] = _attributes(arguments, importer._c)
        function.attributes["res_attrs"] = _attributes(results, importer._c)
    _name_draws(programs, importer)
    buffer = BytesIO()
    importer.module.operation.write_bytecode(buffer)
    return buffer.getvalue(), guards


def _name_draws(programs: dict[str, ExportedProgram], importer: FxImporter) -> None:
    """`lemur.not_on_host`: operators that PyTorch may not run between two stages."""
    names = {
        str(node.target._schema.name).replace("::", ".")
        + (f".{overload}" if (overload := node.target._schema.overload_name) else "")
        for program in programs.values()
        for node in program.graph.nodes
        if draws_numbers(node)
    }
    if names:
        reasons = {name: "it draws random numbers" for name in sorted(names)}
        with importer._c:
            importer.module.operation.attributes["lemur.not_on_host"] = ir.DictAttr.get(
                {name: ir.StringAttr.get(reason) for name, reason in reasons.items()}
            )


def _attributes(marks: _Marks, context: ir.Context) -> ir.ArrayAttr:
    def attribute(value: int | str | list[int]) -> ir.Attribute:
        if isinstance(value, str):
            return ir.StringAttr.get(value)
        if isinstance(value, list):
            return ir.ArrayAttr.get([attribute(item) for item in value])
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)

    with context:
        return ir.ArrayAttr.get(
            [
                ir.DictAttr.get({name: attribute(value) for name, value in mark.items()})
                for mark in marks
            ]
        )


def _find_state(program: ExportedProgram, store: WeightStore, entry_point: str) -> None:
    inputs = {spec.target: spec for spec in program.graph_signature.input_specs if spec.target}
    for spec in inputs.values():
        if spec.kind in _STORED:
            _stored_name(program, spec, store, entry_point)
    for output in program.graph_signature.output_specs:
        if output.kind in _STATE_UPDATES:
            assert output.target is not None
            store.add_state(_stored_name(program, inputs[output.target], store, entry_point))


def _drop_type_assertions(program: ExportedProgram) -> None:
    """Types are static from here on; an assertion would count as a use of its tensor."""
    for node in list(program.graph.nodes):
        if node.target is torch.ops.aten._assert_tensor_metadata.default:
            program.graph.erase_node(node)


def _prepare_inputs(program: ExportedProgram, store: WeightStore, entry_point: str) -> _Marks:
    """Turn weights and state into inputs, tied ones into one; drop what is not used."""
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    kept: list[InputSpec] = []
    marks: _Marks = []
    first: dict[str, torch.fx.Node] = {}
    flat_inputs = 0
    for spec in program.graph_signature.input_specs:
        if not isinstance(spec.arg, (TensorArgument, ConstantArgument)):
            raise UnsupportedModelError(
                f"an input of kind {type(spec.arg).__name__} is not supported",
                code="input-kind",
                where=f"{entry_point}: {spec.arg.name}",
                hint="pass tensors, or Python constants that are the same in every call",
            )
        node = placeholders[spec.arg.name]
        if spec.kind is InputKind.USER_INPUT:
            if isinstance(spec.arg, TensorArgument):
                marks.append({"lemur.input": flat_inputs, **_largest_sizes(program, node)})
                flat_inputs += 1
                kept.append(spec)
            elif node.users:
                kept.append(spec)
            continue
        name = _stored_name(program, spec, store, entry_point)
        if name in store.state:
            marks.append({"lemur.state": name})
        elif not node.users:
            continue
        elif spec.kind is InputKind.CONSTANT_TENSOR and node.meta["val"].numel() == 1:
            kept.append(spec)  # a number written in the model: a constant of the IR
            continue
        elif name in first:
            _replace(program, node, first[name])
            continue
        else:
            store.use(name)
            marks.append({"lemur.param": name})
        first[name] = node
        spec.kind, spec.target, spec.persistent = InputKind.USER_INPUT, None, None
        kept.append(spec)
    program.graph_signature.input_specs[:] = kept
    return marks


def _largest_sizes(
    program: ExportedProgram, node: torch.fx.Node
) -> dict[str, int | str | list[int]]:
    """`lemur.dim_max`, so that costs are those of the largest call; -1 is no maximum."""
    shape = node.meta["val"].shape
    if all(isinstance(size, int) for size in shape):
        return {}
    largest = [largest_size(size, program.range_constraints) for size in shape]
    return {"lemur.dim_max": [-1 if size is None else size for size in largest]}


def _prepare_outputs(
    program: ExportedProgram,
    store: WeightStore,
    entry_point: str,
    flat_inputs: dict[str, int],
) -> _Marks:
    """Turn new values of state into results; Python constants live in the signature."""
    kept: list[OutputSpec] = []
    marks: _Marks = []
    for spec in program.graph_signature.output_specs:
        if spec.kind in _STATE_UPDATES:
            tensor = _tensor(program, spec.target)
            name = store.name_of(tensor, str(spec.target), entry_point)
            marks.append({"lemur.state_update": name})
            spec.kind, spec.target = OutputKind.USER_OUTPUT, None
            kept.append(spec)
        elif spec.kind is OutputKind.USER_INPUT_MUTATION:
            marks.append({"lemur.input_update": flat_inputs[spec.target]})
            spec.kind, spec.target = OutputKind.USER_OUTPUT, None
            kept.append(spec)
        elif spec.kind is not OutputKind.USER_OUTPUT:
            raise UnsupportedModelError(
                f"a result of kind {spec.kind.name} is not supported",
                code="output-kind",
                where=entry_point,
            )
        elif isinstance(spec.arg, TensorArgument):
            marks.append({"lemur.output": sum("lemur.output" in mark for mark in marks)})
            kept.append(spec)
    program.graph_signature.output_specs[:] = kept
    return marks


def _stored_name(
    program: ExportedProgram, spec: InputSpec, store: WeightStore, entry_point: str
) -> str:
    return store.name_of(_tensor(program, spec.target), str(spec.target), entry_point)


def _tensor(program: ExportedProgram, target: Any) -> torch.Tensor:
    found = program.state_dict.get(target)
    value = found if found is not None else program.constants[target]
    assert isinstance(value, torch.Tensor)
    return value


def _replace(program: ExportedProgram, node: torch.fx.Node, other: torch.fx.Node) -> None:
    node.replace_all_uses_with(other)
    for spec in program.graph_signature.output_specs:
        if isinstance(spec.arg, TensorArgument) and spec.arg.name == node.name:
            spec.arg = TensorArgument(name=other.name)
