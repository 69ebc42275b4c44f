"""Integer divisions: by zero, eager raises and the processor kills the process.

    a // b   ->   a // where(b == 0, 1, b), and a flag

So does the least integer divided by -1, which wraps around to itself.
"""

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from lemurc.frontend.graph_edits import MADE, Edit
from lemurc.frontend.guards import Guards, any_of

_aten = torch.ops.aten
_DIVISIONS = frozenset(
    {
        _aten.div.Tensor_mode,
        _aten.floor_divide.default,
        _aten.fmod.Tensor,
        _aten.remainder.Scalar_Tensor,
        _aten.remainder.Tensor,
    }
)
_REASON = "integer division by zero"


def guard_divisions(program: ExportedProgram, guards: Guards) -> None:
    for node in list(program.graph.nodes):
        if node.target in _DIVISIONS and MADE not in node.meta and _is_integer(node):
            divisor = node.args[1]
            if isinstance(divisor, Node) and isinstance(divisor.meta["val"], torch.Tensor):
                node.update_arg(1, _safe(node, divisor, guards))


def _is_integer(node: Node) -> bool:
    dtype = node.meta["val"].dtype
    return not (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool)


def _safe(node: Node, divisor: Node, guards: Guards) -> Node:
    edit = Edit(node)
    dividend: Any = node.args[0]
    wrong: Node | None = None
    if guards.zero(divisor) and not guards.promise_nonzero(node, divisor, _REASON):
        wrong = edit.call(_aten.eq.Scalar, divisor, 0)
        guards.flag(any_of(edit, wrong), _REASON, node)
    if isinstance(dividend, Node) and guards.negative(divisor):
        least = torch.iinfo(node.meta["val"].dtype).min
        overflow = edit.call(
            _aten.bitwise_and.Tensor,
            edit.call(_aten.eq.Scalar, dividend, least),
            edit.call(_aten.eq.Scalar, divisor, -1),
        )
        wrong = overflow if wrong is None else edit.call(_aten.bitwise_or.Tensor, wrong, overflow)
    if wrong is None:
        return divisor
    one = edit.call(_aten.full.default, [], 1, dtype=divisor.meta["val"].dtype)
    return edit.call(_aten.where.self, wrong, one, divisor)
