"""Python data as attributes, and back."""

import math
from typing import Any

from torch_mlir import ir


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
    if isinstance(value, (list, tuple)):
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
