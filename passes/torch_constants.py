"""Reading Python constants out of operations of the `torch` dialect."""

from typing import Any

from torch_mlir import ir

_SCALARS = frozenset(
    {"torch.constant.int", "torch.constant.float", "torch.constant.bool", "torch.constant.str"}
)
_NONE = "torch.constant.none"
_LIST = "torch.prim.ListConstruct"
_OTHERS = frozenset({"torch.constant.device"})


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _Unknown()
"""What `constant` answers for a value that is computed when the model runs."""


def defining(value: ir.Value) -> ir.Operation | None:
    """The operation that makes `value`; None for a block argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def constant(value: ir.Value) -> Any:
    """The int, float, bool, str, None or list that `value` always is, or UNKNOWN."""
    operation = defining(value)
    if operation is None:
        return UNKNOWN
    if operation.name in _SCALARS:
        return operation.attributes["value"].value
    if operation.name == _NONE:
        return None
    if operation.name == _LIST:
        items = [constant(item) for item in operation.operands]
        return UNKNOWN if any(item is UNKNOWN for item in items) else items
    return UNKNOWN


def is_constant_operation(operation: ir.Operation) -> bool:
    """Whether it makes a Python constant, or a list of values."""
    name = operation.name
    return name in _SCALARS or name in (_NONE, _LIST) or name in _OTHERS


def is_tensor(value: ir.Value) -> bool:
    return str(value.type).startswith("!torch.vtensor")


def shape(value: ir.Value) -> list[int] | None:
    """Sizes of a tensor, -1 where dynamic; None when `value` is no ranked tensor."""
    text = str(value.type)
    if not text.startswith("!torch.vtensor<["):
        return None
    sizes = text[len("!torch.vtensor<[") : text.index("]")]
    return [-1 if size == "?" else int(size) for size in sizes.split(",") if size]


def dtype(value: ir.Value) -> str:
    """`f32`, `si64`, ...; empty when `value` is no ranked tensor."""
    text = str(value.type)
    return text[text.rindex(",") + 1 : -1] if text.startswith("!torch.vtensor<[") else ""
