"""Calls of operators that PyTorch runs: marked `lemur.host`, on the device of target `host`.

    %y = call @host_0(%x) {lemur.host = {op = "my::scale", arguments = [{tensor = 0 : i64}],
                                         inputs = ["float32"], results = ["float32"]}}

See passes/outline_host_ops.py, which makes them. They stand in an entry itself, have no body,
and may go nowhere but to the host; nothing else may go there.
"""

import math
from typing import Any

from torch_mlir import ir

ATTRIBUTE = "lemur.host"


def is_host_call(op: ir.Operation) -> bool:
    return op.name == "func.call" and ATTRIBUTE in op.attributes


def host_operator(op: ir.Operation) -> str:
    """`my::scale`, of a call that is one."""
    return str(op.attributes[ATTRIBUTE]["op"].value)


def attribute(value: Any) -> ir.Attribute:
    """Constants, lists and dicts of them, as an attribute; None is a unit."""
    if value is None:
        return ir.UnitAttr.get()
    if isinstance(value, bool):
        return ir.BoolAttr.get(value)
    if isinstance(value, int):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
    if isinstance(value, float):
        return ir.FloatAttr.get(ir.F64Type.get(), value)
    if isinstance(value, str):
        return ir.StringAttr.get(value)
    if isinstance(value, list):
        return ir.ArrayAttr.get([attribute(item) for item in value])
    return ir.DictAttr.get({key: attribute(item) for key, item in value.items()})


def plain(value: ir.Attribute) -> Any:
    """The reverse of `attribute`, in JSON: a float that is not finite is {"float": "inf"}."""
    if isinstance(value, ir.UnitAttr):
        return None
    if isinstance(value, ir.ArrayAttr):
        return [plain(item) for item in value]
    if isinstance(value, ir.DictAttr):
        return {item.name: plain(item.attr) for item in value}
    found = value.value
    if isinstance(found, float) and not math.isfinite(found):
        return {"float": str(found)}
    return found
