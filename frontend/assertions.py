"""`torch._assert_async`, `torch._check` and the bounds of `.item()` as guards.

k = n.item(); torch._check(k <= 8)     n is an argument: checked before the call
torch._assert_async(x.sum() > 0, m)    a flag with message m
"""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from lemurc.errors import UnsupportedModelError
from lemurc.frontend.graph_edits import MADE, Edit
from lemurc.frontend.guards import Guards
from lemurc.frontend.node_locations import python_line

_aten = torch.ops.aten
_DROPPED = (
    _aten.sym_constrain_range.default,
    _aten.sym_constrain_range_for_size.default,
)
"""Said again by the range of the number."""


def guard_assertions(program: ExportedProgram, guards: Guards) -> None:
    for node in list(program.graph.nodes):
        if node.op != "call_function" or MADE in node.meta:
            continue
        if node.target is _aten._local_scalar_dense.default:
            _bound(program, node, guards)
        elif node.target in (_aten._assert_async.msg, _aten._assert_async.default):
            condition: Any = node.args[0]
            message = str(node.args[1]) if len(node.args) > 1 else "an assertion of the model"
            _assert(node, condition, message, guards)
            program.graph.erase_node(node)
        elif node.target is _aten._assert_scalar.default:
            condition, message = node.args
            if isinstance(condition, Node) and not _implied(condition, guards):
                _assert(node, _as_tensor(Edit(node), condition), str(message), guards)
            program.graph.erase_node(node)
        elif node.target in _DROPPED:
            program.graph.erase_node(node)


def _bound(program: ExportedProgram, node: Node, guards: Guards) -> None:
    """The range that the export relied on for the number."""
    number, source = node.meta["val"], node.args[0]
    assert isinstance(source, Node)
    if not isinstance(number, torch.SymInt) or source.meta["val"].dtype.is_floating_point:
        return
    known = program.range_constraints.get(number.node.expr)
    if known is not None:
        reason = f"a number read with .item(), which must be in {_spelled(known)}"
        bounded = guards.bounded(node, source, known.lower, known.upper, reason)
        node.update_arg(0, bounded)


def _spelled(known: Any) -> str:
    low = known.lower if known.lower.is_Integer else ""
    return f"{low}..{known.upper if known.upper.is_Integer else ''}"


def _assert(node: Node, condition: Node, message: str, guards: Guards) -> None:
    edit = Edit(node)
    if condition.meta["val"].dtype is torch.bool:
        failed = edit.call(_aten.logical_not.default, condition)
    else:
        failed = edit.call(_aten.eq.Scalar, condition, 0)
    guards.flag(failed, message, node)


def _implied(condition: Node, guards: Guards) -> bool:
    """Whether the ranges of sizes and numbers, checked anyway, make it true."""
    value = condition.meta["val"]
    if isinstance(value, bool):
        return value
    relation = value.node.expr
    kind = type(relation).__name__
    if kind not in ("GreaterThan", "LessThan", "StrictGreaterThan", "StrictLessThan"):
        return bool(relation == True)  # noqa: E712  (sympy's truth)
    difference = relation.gts - relation.lts
    return guards.proven(difference - 1 if kind.startswith("Strict") else difference)


_ARITHMETIC: dict[Any, Callable[..., Any]] = {
    operator.add: _aten.add.Tensor,
    operator.and_: _aten.bitwise_and.Tensor,
    operator.eq: _aten.eq.Tensor,
    operator.floordiv: _aten.floor_divide.default,
    operator.ge: _aten.ge.Tensor,
    operator.gt: _aten.gt.Tensor,
    operator.le: _aten.le.Tensor,
    operator.lt: _aten.lt.Tensor,
    operator.mod: _aten.remainder.Tensor,
    operator.mul: _aten.mul.Tensor,
    operator.ne: _aten.ne.Tensor,
    operator.or_: _aten.bitwise_or.Tensor,
    operator.sub: _aten.sub.Tensor,
    torch.sym_not: _aten.logical_not.default,
}


def _as_tensor(edit: Edit, value: Any) -> Node:
    """The same computation on tensors of rank 0, whose result can be a flag."""
    if isinstance(value, Node):
        if value.target is _aten._local_scalar_dense.default:
            source = value.args[0]
            assert isinstance(source, Node)
            return edit.call(_aten.reshape.default, source, [])
        operation = _ARITHMETIC.get(value.target)
        if operation is not None:
            return edit.call(operation, *(_as_tensor(edit, arg) for arg in value.args))
        if not isinstance(value.meta["val"], (int, torch.SymInt)):
            raise UnsupportedModelError(
                f"the model asserts something that cannot be compiled: {value.target}",
                code="unsupported-assertion",
                where=python_line(value) or value.name,
                hint="write it with comparisons of tensors and torch._assert_async",
            )
    return edit.tensor(value)
