"""MLIR given by the user: functions on tensors, at level `linalg` or ours."""

from io import BytesIO
from pathlib import Path
from typing import Any

from torch_mlir import ir

from lemurc.dialects.context import new_context
from lemurc.errors import UnsupportedModelError, UsageError
from lemurc.frontend.program import Program, Signature
from lemurc.manifest import DTYPES, SymbolicDim, TensorSpec
from lemurc.pytree import LEAF, Tree


def load_mlir(path: Path) -> Program:
    """Public functions become entry points; there is no eager model to compare with."""
    context = new_context()
    with context, ir.Location.unknown():
        try:
            module = ir.Module.parse(path.read_bytes())
        except ir.MLIRError as error:
            raise UsageError(
                f"{str(path)!r} does not parse as MLIR: {str(error).splitlines()[-1]}",
                code="mlir-syntax",
                hint="lemurc reads linalg, tensor, arith, func and tm_tensor",
            ) from error
        functions = {}
        for operation in module.body.operations:
            if operation.operation.name == "func.func" and _is_public(operation):
                functions[operation.attributes["sym_name"].value] = _signature(operation)
        if not functions:
            raise UsageError(
                f"{str(path)!r} has no public function",
                code="mlir-functions",
                hint="write the entry point as func.func @main(...) with a body",
            )
        buffer = BytesIO()
        module.operation.write_bytecode(buffer)
    return Program(name=path.stem, mlir=buffer.getvalue(), functions=functions, level="linalg")


def _is_public(function: Any) -> bool:
    visibility = function.attributes.get("sym_visibility")
    return visibility is None or visibility.value == "public"


def _signature(function: Any) -> Signature:
    name = function.attributes["sym_name"].value
    kind = ir.FunctionType(function.attributes["function_type"].value)
    inputs = tuple(_spec(type_, f"arg{i}", name) for i, type_ in enumerate(kind.inputs))
    outputs = tuple(_spec(type_, f"output{i}", name) for i, type_ in enumerate(kind.results))
    for key, count, mark in (
        ("arg_attrs", len(inputs), "lemur.input"),
        ("res_attrs", len(outputs), "lemur.output"),
    ):
        i64 = ir.IntegerType.get_signless(64)
        marks = [ir.DictAttr.get({mark: ir.IntegerAttr.get(i64, index)}) for index in range(count)]
        function.attributes[key] = ir.ArrayAttr.get(marks)
    args: Tree = {"kind": "tuple", "items": [LEAF] * len(inputs)}
    no_kwargs: Tree = {"kind": "dict", "keys": [], "items": []}
    in_tree: Tree = {"kind": "tuple", "items": [args, no_kwargs]}
    results: Tree = {"kind": "tuple", "items": [LEAF] * len(outputs)}
    out_tree = LEAF if len(outputs) == 1 else results
    return Signature(inputs, outputs, in_tree, out_tree)


def _spec(type_: ir.Type, name: str, function: str) -> TensorSpec:
    if not isinstance(type_, ir.RankedTensorType) or str(type_.element_type) not in DTYPES:
        raise UnsupportedModelError(
            f"function @{function}: {type_} is no ranked tensor of numbers",
            code="mlir-types",
            where=name,
            hint="lower the module to linalg on tensors first",
        )
    shape = tuple(
        SymbolicDim(f"{name}.{axis}", 0) if type_.is_dynamic_dim(axis) else type_.get_dim_size(axis)
        for axis in range(type_.rank)
    )
    return TensorSpec(name, DTYPES[str(type_.element_type)], shape)
