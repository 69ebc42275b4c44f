"""Making operations of the `torch` dialect at the current insertion point."""

from typing import Any

from torch_mlir import ir

from lemurc.passes.torch_constants import dtype

_DTYPE_NUMBER = {"si64": 4, "f16": 5, "f32": 6, "f64": 7, "bf16": 15}
"""PyTorch's ScalarType, which the torch dialect spells as integers."""


def number(value: int | float | bool | None) -> ir.Value:
    """A constant of the torch dialect."""
    if value is None:
        kind, attributes = "none", {}
    elif isinstance(value, bool):
        kind, attributes = "bool", {"value": ir.BoolAttr.get(value)}
    elif isinstance(value, int):
        i64 = ir.IntegerType.get_signless(64)
        kind, attributes = "int", {"value": ir.IntegerAttr.get(i64, value)}
    else:
        kind, attributes = "float", {"value": ir.FloatAttr.get(ir.F64Type.get(), value)}
    result = ir.Type.parse(f"!torch.{kind}")
    return create(f"torch.constant.{kind}", [], result, attributes)


def string(value: str) -> ir.Value:
    attributes = {"value": ir.StringAttr.get(value)}
    return create("torch.constant.str", [], ir.Type.parse("!torch.str"), attributes)


def create(
    name: str, operands: list[ir.Value], result: ir.Type, attributes: dict[str, Any] | None = None
) -> ir.Value:
    operation = ir.Operation.create(
        name, results=[result], operands=operands, attributes=attributes or {}
    )
    return operation.results[0]


def with_dtype(value: ir.Value, name: str) -> ir.Type:
    """The type of the tensor `value` with another element type."""
    text = str(value.type)
    return ir.Type.parse(f"{text[: text.rindex(',')]},{name}>")


def convert(value: ir.Value, name: str) -> ir.Value:
    """`value` as `f32`, `bf16`, ...; itself when it is that already."""
    if dtype(value) == name:
        return value
    operands = [value, number(_DTYPE_NUMBER[name])]
    return create("torch.prims.convert_element_type", operands, with_dtype(value, name))


def with_shape(value: ir.Value, sizes: list[int]) -> ir.Type:
    """The type of the tensor `value` with another shape; -1 is dynamic."""
    spelled = ",".join("?" if size < 0 else str(size) for size in sizes)
    return ir.Type.parse(f"!torch.vtensor<[{spelled}],{dtype(value)}>")
