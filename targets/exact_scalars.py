"""Comparisons, roundings and casts of numbers, spelt so that IREE's interpreter gets them right.

    arith.cmpf oge, %x, %y       ->  %x >= %y and neither is NaN
    arith.cmpf une, %x, %y       ->  %x != %y or one of them is NaN
    math.roundeven %x            ->  -roundeven(-%x) of negative numbers
    arith.fptosi %x              ->  arith.fptosi of %x without its fraction

In IREE 3.13 VMVX takes `ord`, `one`, `oge` and `uge` for true, true, true and false where an
operand is NaN, folds comparisons of a number with itself as if it were an integer, loses the
sign of what it rounds to zero, and rounds in casts to integers where it must cut off.
"""

from collections.abc import Callable, Iterable
from typing import Any

_PREDICATES = tuple("false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true".split())
"""In the order of MLIR's numbers."""

_RIGHT = ("false", "ogt", "olt", "uno", "true")


def exact_scalars(operations: Iterable[Any]) -> None:
    """Rewrites what is wrong among `operations`, in place."""
    from iree.compiler import ir

    for operation in list(operations):
        rewrite = _REWRITES.get(operation.name)
        if rewrite is None or not _is_scalar_float(operation.operands[0].type):
            continue
        with ir.InsertionPoint(operation), ir.Location.unknown():
            new = rewrite(operation)
        if new is not None:
            operation.results[0].replace_all_uses_with(new)
            operation.erase()


def _compare(operation: Any) -> Any:
    """IREE learns only later that two operands are one, so all may be."""
    name = _PREDICATES[operation.attributes["predicate"].value]
    x, y = operation.operands
    if name in _RIGHT:
        return None
    unordered = _cmp("uno", x, y)
    if name == "ord":
        return _not(unordered)
    if name.startswith("u"):
        return _made("arith.ori", _cmp("oeq" if name == "ueq" else name, x, y), unordered)
    return _made("arith.andi", _cmp("une" if name == "one" else name, x, y), _not(unordered))


def _round(operation: Any) -> Any:
    [x] = operation.operands
    below = _cmp("olt", x, _constant(x.type, 0.0))
    negative = _made("arith.negf", _made("math.roundeven", _made("arith.negf", x)))
    return _made("arith.select", below, negative, _made("math.roundeven", x))


def _cast(operation: Any) -> Any:
    [x] = operation.operands
    below = _cmp("olt", x, _constant(x.type, 0.0))
    whole = _made("arith.select", below, _made("math.ceil", x), _made("math.floor", x))
    return _made(operation.name, whole, result=operation.results[0].type)


_REWRITES: dict[str, Callable[[Any], Any]] = {
    "arith.cmpf": _compare,
    "arith.fptosi": _cast,
    "arith.fptoui": _cast,
    "math.roundeven": _round,
}


def _is_scalar_float(kind: Any) -> bool:
    return str(kind) in ("f32", "f64")


def _cmp(predicate: str, x: Any, y: Any) -> Any:
    from iree.compiler import ir

    number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _PREDICATES.index(predicate))
    bit = ir.IntegerType.get_signless(1)
    return _made("arith.cmpf", x, y, result=bit, predicate=number)


def _not(value: Any) -> Any:
    from iree.compiler import ir

    true = _made("arith.constant", result=value.type, value=ir.IntegerAttr.get(value.type, 1))
    return _made("arith.xori", value, true)


def _constant(kind: Any, value: float) -> Any:
    from iree.compiler import ir

    return _made("arith.constant", result=kind, value=ir.FloatAttr.get(kind, value))


def _made(name: str, *operands: Any, result: Any = None, **attributes: Any) -> Any:
    """The result of a new operation, of its last operand's type if none is given."""
    from iree.compiler import ir

    kind = result if result is not None else operands[-1].type
    return ir.Operation.create(
        name, results=[kind], operands=list(operands), attributes=attributes
    ).results[0]
