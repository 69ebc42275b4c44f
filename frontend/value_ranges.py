"""What integers a value of an exported graph can hold, as far as that can be told.

    arange(t) % 7      -> 0 .. 6
    argmax(x, dim=1)   -> 0 .. x.shape[1] - 1
    position_ids       -> the least and the largest number in the buffer

Bounds are sympy expressions of the dynamic sizes; what is not known is infinite. A
lookup by such an index needs no check at run time when the bounds fit the table.
"""

import operator
from collections.abc import Callable
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx import Node

Range = tuple[Any, Any]
ANYTHING: Range = (-sympy.oo, sympy.oo)
_aten = torch.ops.aten

SAME_ELEMENTS = frozenset(
    {
        _aten.view.default,
        _aten.reshape.default,
        _aten._unsafe_view.default,
        _aten.unsqueeze.default,
        _aten.squeeze.default,
        _aten.squeeze.dim,
        _aten.squeeze.dims,
        _aten.expand.default,
        _aten.permute.default,
        _aten.transpose.int,
        _aten.t.default,
        _aten.clone.default,
        _aten.alias.default,
        _aten.detach.default,
        _aten.flatten.using_ints,
        _aten.unflatten.int,
        _aten.repeat.default,
        _aten.flip.default,
        _aten.lift_fresh_copy.default,
    }
)
"""Every element of the first operand is in the result, and nothing else."""
_SOME_ELEMENTS = frozenset(
    {
        _aten.slice.Tensor,
        _aten.select.int,
        _aten.index.Tensor,
        _aten.index_select.default,
        _aten.gather.default,
        _aten.roll.default,
        _aten.amax.default,
        _aten.amin.default,
    }
)
_CASTS = frozenset({_aten._to_copy.default, _aten.to.dtype})


class ValueRanges:
    """`of(node)` is (least, largest). `constants` holds the weights by placeholder name."""

    def __init__(self, constants: dict[str, torch.Tensor]) -> None:
        self._constants = constants
        self._known: dict[Node, Range] = {}

    def of(self, value: Any) -> Range:
        if not isinstance(value, Node):
            known = isinstance(value, (int, torch.SymInt))
            return (_expression(value),) * 2 if known else ANYTHING
        if value not in self._known:
            self._known[value] = ANYTHING  # for the way back to itself
            self._known[value] = self._find(value)
        return self._known[value]

    def _find(self, node: Node) -> Range:
        value = node.meta.get("val")
        if isinstance(value, (int, torch.SymInt)):
            return (_expression(value),) * 2
        if node.op == "placeholder" and node.name in self._constants:
            return _of_tensor(self._constants[node.name])
        found = self._computed(node) if node.op == "call_function" else ANYTHING
        if found == ANYTHING and isinstance(value, torch.Tensor):
            if value.dtype is torch.bool:
                return sympy.Integer(0), sympy.Integer(1)
            if value.dtype in (torch.uint8, torch.int8):
                info = torch.iinfo(value.dtype)
                return sympy.Integer(info.min), sympy.Integer(info.max)
        return found

    def _computed(self, node: Node) -> Range:
        target: Any = node.target
        if target in SAME_ELEMENTS or target in _SOME_ELEMENTS:
            return self.of(node.args[0])
        if target in _CASTS:
            source = node.args[0]
            assert isinstance(source, Node)
            return ANYTHING if source.meta["val"].is_floating_point() else self.of(source)
        if target is operator.getitem:
            source, number = node.args
            assert isinstance(source, Node)
            return _positions(source) if number == 1 else ANYTHING
        if target in (_aten.argmax.default, _aten.argmin.default, _aten.argsort.default):
            return _positions(node)
        if target in (_aten.cat.default, _aten.stack.default):
            parts: Any = node.args[0]
            return self._union(*parts)
        if target is _aten.where.self:
            return self._union(*node.args[1:3])
        rule = _RULES.get(target)
        if rule is None:
            return ANYTHING
        return rule([self.of(arg) for arg in node.args], node)

    def _union(self, *values: Any) -> Range:
        ranges = [self.of(value) for value in values]
        return sympy.Min(*(r[0] for r in ranges)), sympy.Max(*(r[1] for r in ranges))


def _expression(number: Any) -> Any:
    return sympy.Integer(number) if isinstance(number, int) else number.node.expr


def _of_tensor(tensor: torch.Tensor) -> Range:
    if tensor.is_floating_point() or tensor.is_complex() or not tensor.numel():
        return ANYTHING
    return sympy.Integer(int(tensor.min())), sympy.Integer(int(tensor.max()))


def _positions(node: Node) -> Range:
    """Positions along a dimension of the first operand, the last one by default."""
    source: Any = node.args[0]
    shape = source.meta["val"].shape
    default = None if node.target in (_aten.argmax.default, _aten.argmin.default) else -1
    at = 2 if node.target in (_aten.topk.default, _aten.kthvalue.default) else 1
    dim = node.args[at] if len(node.args) > at else node.kwargs.get("dim", default)
    if node.target in _DIMENSIONED and isinstance(dim, int):
        return sympy.Integer(0), _expression(shape[dim]) - 1 if shape else sympy.Integer(0)
    if default is None and dim is None:
        return sympy.Integer(0), sympy.prod([_expression(size) for size in shape]) - 1
    return ANYTHING


_DIMENSIONED = frozenset(
    {
        _aten.argmax.default,
        _aten.argmin.default,
        _aten.argsort.default,
        _aten.kthvalue.default,
        _aten.max.dim,
        _aten.min.dim,
        _aten.sort.default,
        _aten.topk.default,
    }
)
_Rule = Callable[[list[Range], Node], Range]


def _plain(rule: Callable[..., Range]) -> _Rule:
    """A rule of the operands' ranges alone, for an addition without a factor."""

    def apply(ranges: list[Range], node: Node) -> Range:
        return ANYTHING if node.kwargs.get("alpha", 1) != 1 or len(ranges) > 2 else rule(*ranges)

    return apply


def _product(x: Range, y: Range) -> Range:
    if any(bound.is_infinite for bound in (*x, *y)):
        return ANYTHING
    corners = [a * b for a in x for b in y]
    return sympy.Min(*corners), sympy.Max(*corners)


def _least(x: Range, y: Range) -> Range:
    return sympy.Min(x[0], y[0]), sympy.Min(x[1], y[1])


def _remainder(x: Range, y: Range) -> Range:
    return (sympy.Integer(0), y[1] - 1) if y[0].is_positive else ANYTHING


def _quotient(ranges: list[Range], node: Node) -> Range:
    (low, high), by = ranges[:2]
    if by[0] != by[1] or not (by[0].is_Integer and by[0] > 0) or low.is_negative is not False:
        return ANYTHING
    return sympy.floor(low / by[0]), high if high.is_infinite else sympy.floor(high / by[0])


def _arange(ranges: list[Range], node: Node) -> Range:
    start, end = (ranges[0], ranges[1]) if len(ranges) > 1 else ((sympy.Integer(0),) * 2, ranges[0])
    step = node.args[2] if len(node.args) > 2 else 1
    return (start[0], end[1] - 1) if isinstance(step, int) and step > 0 else ANYTHING


def _clamp(ranges: list[Range], node: Node) -> Range:
    low, high = ranges[0]
    given = [node.kwargs.get("min"), node.kwargs.get("max")]
    given[: len(node.args) - 1] = node.args[1:]
    if isinstance(given[0], int):
        low, high = sympy.Max(low, given[0]), sympy.Max(high, given[0])
    if isinstance(given[1], int):
        low, high = sympy.Min(low, given[1]), sympy.Min(high, given[1])
    return low, high


def _filled(at: int) -> _Rule:
    return lambda ranges, node: ranges[at]


def _constant(number: int) -> _Rule:
    return lambda ranges, node: (sympy.Integer(number),) * 2


_add = _plain(lambda x, y: (x[0] + y[0], x[1] + y[1]))
_subtract = _plain(lambda x, y: (x[0] - y[1], x[1] - y[0]))
_RULES: dict[Any, _Rule] = {
    _aten.add.Tensor: _add,
    _aten.add.Scalar: _add,
    _aten.sub.Tensor: _subtract,
    _aten.sub.Scalar: _subtract,
    _aten.mul.Tensor: _plain(_product),
    _aten.mul.Scalar: _plain(_product),
    _aten.neg.default: _plain(lambda x: (-x[1], -x[0])),
    _aten.abs.default: _plain(
        lambda x: (sympy.Integer(0), sympy.Max(sympy.Abs(x[0]), sympy.Abs(x[1])))
    ),
    _aten.minimum.default: _plain(_least),
    _aten.maximum.default: _plain(lambda x, y: (sympy.Max(x[0], y[0]), sympy.Max(x[1], y[1]))),
    _aten.remainder.Scalar: _plain(_remainder),
    _aten.remainder.Tensor: _plain(_remainder),
    _aten.div.Tensor_mode: _quotient,
    _aten.floor_divide.default: _quotient,
    _aten.arange.default: _arange,
    _aten.arange.start: _arange,
    _aten.arange.start_step: _arange,
    _aten.clamp.default: _clamp,
    _aten.clamp_min.default: _clamp,
    _aten.clamp_max.default: _plain(_least),
    _aten.full.default: _filled(1),
    _aten.full_like.default: _filled(1),
    _aten.scalar_tensor.default: _filled(0),
    _aten.zeros.default: _constant(0),
    _aten.zeros_like.default: _constant(0),
    _aten.ones.default: _constant(1),
    _aten.ones_like.default: _constant(1),
}
