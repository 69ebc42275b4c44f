"""Leave what nothing lowers to PyTorch on the CPU: each such operation becomes a call.

    %y = torch.operator "torch.my.scale"(%x, %two)      (%two a constant)
      ->
    %y = call @host_0(%x)
    func.func private @host_0(tensor) -> tensor attributes {lemur.host = {op = "my::scale",
        arguments = [{tensor = 0}, 2], inputs = ["float32"], results = ["float32"]}}

The pass runs only where the user allowed it, so nothing falls back in silence. Arguments are
in the order of PyTorch's schema: tensors by the number of the operand, constants as they are.
A number that is known at run time only becomes a tensor of rank 0, `{number = k}`.
"""

from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func

from lemurc.passes.attributes import attribute
from lemurc.passes.base import Pass
from lemurc.passes.host_calls import ATTRIBUTE
from lemurc.passes.lone_lowering import (
    has_hazard,
    lowers,
    operator_name,
    operator_of,
    unlowered,
)
from lemurc.passes.torch_constants import constant, defining, dtype, is_tensor
from lemurc.passes.unsupported import refusal
from lemurc.passes.unused import is_used

DTYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "si64": "int64",
    "si32": "int32",
    "si16": "int16",
    "si8": "int8",
    "ui8": "uint8",
    "i1": "bool",
}
"""The torch dialect's element types by NumPy's or ml_dtypes' names."""

REFUSED = "lemur.not_on_host"
"""Attribute of the module: operators by name, with the reason why they must be compiled."""

_NUMBERS = {"!torch.int": "si64", "!torch.float": "f64"}


class _Unfit(Exception):
    """Why PyTorch cannot run an operation between two stages."""


@dataclass(frozen=True)
class OutlineHostOps(Pass):
    """`strict`: refuse what it would outline."""

    name: ClassVar[str] = "outline-host-ops"

    strict: bool = False

    def run(self, module: ir.Operation) -> None:
        if not has_hazard(module) and lowers(module.clone()):
            return
        found = unlowered(module)
        if self.strict and found:
            raise refusal(found, {}, "or compile without --strict, under which nothing falls back")
        refused, reasons = _refused(module), {}
        for operation in found:
            try:
                _plan(operation, refused)
            except _Unfit as unfit:
                reasons[operator_name(operation)] = str(unfit)
        if reasons:
            raise refusal([op for op in found if operator_name(op) in reasons], reasons, "")
        for operation in found:
            # planned anew: its operands may be results of one just replaced
            _outline(module, operation, _plan(operation, refused))


@dataclass
class _Plan:
    """`operands` are tensors, and numbers that become tensors; `arguments` what to call with."""

    operands: list[ir.Value]
    arguments: list[Any]
    inputs: list[str]
    results: list[str]


def _plan(operation: ir.Operation, refused: dict[str, str]) -> _Plan:
    name = operator_name(operation)
    if name in refused:
        raise _Unfit(refused[name])
    if name.startswith("prim.") or "." not in name:
        raise _Unfit("it is no operator that Python can call")
    if operation.parent.operation.name != "func.func":
        raise _Unfit("it stands in a loop or a branch")
    plan = _Plan([], [], [], [_numpy_name(result) for result in operation.results])
    plan.arguments = [_argument(value, plan) for value in operator_of(operation).operands]
    return plan


def _argument(value: ir.Value, plan: _Plan) -> Any:
    kind = str(value.type)
    if is_tensor(value) or (kind in _NUMBERS and defining(value) is None):
        return _operand("tensor" if is_tensor(value) else "number", value, plan)
    operation = defining(value)
    if operation is not None and operation.name == "torch.prim.ListConstruct":
        return [_argument(item, plan) for item in operation.operands]
    if operation is not None and operation.name == "torch.constant.device":
        return {"device": operation.attributes["value"].value}
    known = constant(value)
    if known is None or isinstance(known, (bool, int, float, str)):
        return known
    if kind in _NUMBERS:
        return _operand("number", value, plan)
    raise _Unfit(f"it takes a {kind}, which is no tensor, number or constant")


def _operand(key: str, value: ir.Value, plan: _Plan) -> dict[str, int]:
    if value not in plan.operands:
        plan.operands.append(value)
        plan.inputs.append(
            DTYPES[_NUMBERS[str(value.type)]] if key == "number" else _numpy_name(value)
        )
    return {key: plan.operands.index(value)}


def _numpy_name(value: ir.Value) -> str:
    if dtype(value) not in DTYPES:
        raise _Unfit(f"no stage can pass on a {value.type}")
    return DTYPES[dtype(value)]


def _refused(module: ir.Operation) -> dict[str, str]:
    if REFUSED not in module.attributes:
        return {}
    return {item.name: str(item.attr.value) for item in module.attributes[REFUSED]}


def _outline(module: ir.Operation, operation: ir.Operation, plan: _Plan) -> None:
    with ir.InsertionPoint(operation), operation.location:
        operands = [value if is_tensor(value) else _as_tensor(value) for value in plan.operands]
    kind = ir.FunctionType.get(
        [value.type for value in operands], [result.type for result in operation.results]
    )
    with ir.InsertionPoint(module.regions[0].blocks[0]), operation.location:
        declared = func.FuncOp(_fresh(module), kind, visibility="private")
    declared.attributes[ATTRIBUTE] = attribute(
        {
            "op": _qualified(operator_name(operation)),
            "arguments": plan.arguments,
            "inputs": plan.inputs,
            "results": plan.results,
        }
    )
    with ir.InsertionPoint(operation), operation.location:
        call = func.CallOp(declared, operands).operation
    for old, new in zip(operation.results, call.results, strict=True):
        old.replace_all_uses_with(new)
    maker = operator_of(operation)
    unpacks = maker != operation
    operation.erase()
    if unpacks and not is_used(maker):
        maker.erase()


def _fresh(module: ir.Operation) -> str:
    operations = [op.operation for op in module.regions[0].blocks[0].operations]
    taken = {op.attributes["sym_name"].value for op in operations if "sym_name" in op.attributes}
    return next(name for number in count() if (name := f"host_{number}") not in taken)


def _qualified(name: str) -> str:
    """`aten.index.Tensor` -> `aten::index.Tensor`."""
    namespace, _, operator = name.partition(".")
    return f"{namespace}::{operator}"


def _as_tensor(number: ir.Value) -> ir.Value:
    element = _NUMBERS[str(number.type)]
    made = ir.Operation.create(
        "torch.prim.NumToTensor.Scalar",
        results=[ir.Type.parse(f"!torch.vtensor<[],{element}>")],
        operands=[number],
    )
    return made.results[0]
