"""A composite call in a stage, as kernel selection reads it (iree.compiler bindings)."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from lemurc.targets.layouts import laid_out

_ROLES = {
    "gelu": ["input"],
    "layer_norm": ["input", "weight", "bias"],
    "linear": ["input", "weight", "bias"],
    "matmul": ["a", "b", "bias"],
    "conv": ["input", "weight", "bias"],
    "attention": ["query", "key", "value", "mask"],
}
"""Of the arguments, where the function does not say `lemur.operands`."""


@dataclass(frozen=True)
class Composite:
    """`attributes` are the callee's, without the `lemur.` in front."""

    kind: str
    call: Any
    attributes: Mapping[str, Any]
    functions: Mapping[str, Any]

    def operands(self) -> dict[str, Any]:
        """The values it is called with, by role."""
        roles = self.attributes.get("operands") or _ROLES.get(self.kind, [])
        return dict(zip(roles, self.call.operands, strict=False))

    def result_shape(self) -> list[int]:
        return list(self.call.results[0].type.shape)

    def is_static_f32(self) -> bool:
        """One result, and nothing but f32 tensors of known, positive size."""
        values = [*self.call.operands, *self.call.results]
        return len(self.call.results) == 1 and all(is_static_f32(v.type) for v in values)

    def producer(self) -> "Composite | None":
        """The composite that makes the one operand, when nothing else reads it."""
        if len(self.call.operands) != 1 or not self.is_static_f32():
            return None
        value = self.call.operands[0]
        if _is_argument(value) or len(list(value.uses)) != 1:
            return None
        found = composite(value.owner.operation, self.functions)
        return found if found is not None and found.is_static_f32() else None


def composite(op: Any, functions: Mapping[str, Any]) -> Composite | None:
    """`op` as a composite call, or None when it is something else."""
    if op.name != "func.call":
        return None
    callee = functions.get(op.attributes["callee"].value)
    if callee is None or "lemur.composite" not in callee.attributes:
        return None
    attributes = {
        name.removeprefix("lemur."): _plain(callee.attributes[name])
        for name in callee.attributes
        if name.startswith("lemur.")
    }
    return Composite(attributes["composite"], op, attributes, functions)


def weight_name(value: Any) -> str | None:
    """The name of the weight that `value` is; None when it is computed or an input."""
    if not _is_argument(value):
        return None
    function = value.owner.owner.operation
    if "arg_attrs" not in function.attributes:
        return None
    attributes = list(function.attributes["arg_attrs"])[_argument_number(value)]
    return str(attributes["lemur.param"].value) if "lemur.param" in attributes else None


def weight_in_layout(weight: Any, layout: str, shape: list[int]) -> Any:
    """An argument of the stage that is `weight` in a layout of targets/layouts.py."""
    from iree.compiler import ir

    name = weight_name(weight)
    assert name is not None
    wanted = laid_out(name, layout)
    entry = weight.owner
    function = entry.owner.operation
    attributes = list(function.attributes["arg_attrs"])
    for argument, given in zip(entry.arguments, attributes, strict=True):
        if "lemur.param" in given and given["lemur.param"].value == wanted:
            return argument
    kind = ir.RankedTensorType.get(shape, weight.type.element_type)
    added = entry.add_argument(kind, ir.Location.unknown())
    named = ir.DictAttr.get({"lemur.param": ir.StringAttr.get(wanted)})
    function.attributes["arg_attrs"] = ir.ArrayAttr.get([*attributes, named])
    signature = function.attributes["function_type"].value
    grown = ir.FunctionType.get([*signature.inputs, kind], signature.results)
    function.attributes["function_type"] = ir.TypeAttr.get(grown)
    return added


def additive_mask(mask: Any) -> Any | None:
    """`mask` as f32 to be added to scores: a boolean one says which keys are seen."""
    from iree.compiler import ir

    if is_static_f32(mask.type):
        return mask
    kind = mask.type
    if not isinstance(kind, ir.RankedTensorType) or not kind.has_static_shape:
        return None
    if kind.element_type != ir.IntegerType.get_signless(1):
        return None
    floats = ir.RankedTensorType.get(kind.shape, ir.F32Type.get())
    after = _after(mask)
    seen, unseen = (
        ir.Operation.create(
            "arith.constant",
            results=[floats],
            attributes={
                "value": ir.DenseElementsAttr.get_splat(
                    floats, ir.FloatAttr.get(ir.F32Type.get(), value)
                )
            },
            ip=after,
            loc=ir.Location.unknown(),
        ).result
        for value in (0.0, float("-inf"))
    )
    return ir.Operation.create(
        "arith.select",
        results=[floats],
        operands=[mask, seen, unseen],
        ip=after,
        loc=ir.Location.unknown(),
    ).result


def _after(value: Any) -> Any:
    """The first place where `value` can be used."""
    from iree.compiler import ir

    if _is_argument(value):
        return ir.InsertionPoint.at_block_begin(value.owner)
    block = value.owner.operation.block
    operations = list(block.operations)
    position = next(i for i, op in enumerate(operations) if op.operation == value.owner.operation)
    return ir.InsertionPoint(operations[position + 1])


def is_static_f32(kind: Any) -> bool:
    from iree.compiler import ir

    if not isinstance(kind, ir.RankedTensorType) or not kind.has_static_shape:
        return False
    return isinstance(kind.element_type, ir.F32Type) and prod(kind.shape) > 0


def _is_argument(value: Any) -> bool:
    from iree.compiler import ir

    return isinstance(value.owner, ir.Block)


def _argument_number(value: Any) -> int:
    from iree.compiler import ir

    return int(ir.BlockArgument(value).arg_number)


def _plain(attribute: Any) -> Any:
    from iree.compiler import ir

    if isinstance(attribute, (ir.ArrayAttr, ir.DenseI64ArrayAttr)):
        return [item if isinstance(item, int) else _plain(item) for item in attribute]
    return getattr(attribute, "value", None)
