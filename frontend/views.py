"""Views of several dynamic sizes, taken apart so that the lowering keeps them dynamic.

    x.view(b * t, c)        x : [b, t, h, d], h * d == c
      -> x.flatten(2, 3).flatten(0, 1)

torch-mlir guesses which dimensions of a view belong together, and takes a dynamic size
it cannot place for 1. Here the symbolic sizes say which do: groups of dimensions with
equal products, each merged by `flatten` or split by `unflatten`, or both.
"""

from collections.abc import Callable
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.export import ExportedProgram

_VIEWS = (
    torch.ops.aten.view.default,
    torch.ops.aten.reshape.default,
    torch.ops.aten._unsafe_view.default,
)
Group = tuple[range, range]
"""Dimensions before and after that hold the same elements."""


def rewrite_views(program: ExportedProgram) -> None:
    """Replace every view with at least two dynamic sizes that can be taken apart."""
    graph = program.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in _VIEWS:
            continue
        source = node.args[0]
        before, after = _sizes(source), _sizes(node)
        if sum(not size.is_number for size in (*before, *after)) < 2:
            continue
        groups = dimension_groups(before, after)
        if groups is None:
            continue
        with graph.inserting_before(node):
            replacement = _build(graph, node, groups)
        if replacement is not source:
            replacement.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(replacement)
        _rename_output(program, node.name, replacement.name)
        graph.erase_node(node)


def dimension_groups(before: list[Any], after: list[Any]) -> list[Group] | None:
    """Cut both shapes where the products of what came before are equal."""
    groups: list[Group] = []
    start_before = start_after = at_before = at_after = 0
    left = right = sympy.Integer(1)
    while at_before < len(before) or at_after < len(after):
        if at_before > start_before and at_after > start_after and _equal(left, right):
            groups.append((range(start_before, at_before), range(start_after, at_after)))
            start_before, start_after = at_before, at_after
            left = right = sympy.Integer(1)
        elif at_before < len(before) and (
            at_before == start_before or at_after == len(after) or _divides(left, right)
        ):
            left, at_before = left * before[at_before], at_before + 1
        elif at_after < len(after):
            right, at_after = right * after[at_after], at_after + 1
        else:
            return None
    if not _equal(left, right):
        return None
    groups.append((range(start_before, at_before), range(start_after, at_after)))
    return groups


def _equal(left: Any, right: Any) -> bool:
    return bool(sympy.expand(left - right) == 0)


def _divides(left: Any, right: Any) -> bool:
    """Whether `left` needs more dimensions to become `right`."""
    quotient = sympy.cancel(right / left)
    return bool(quotient != 1 and sympy.denom(quotient) == 1)


def _sizes(node: Any) -> list[Any]:
    shape = node.meta["val"].shape
    return [sympy.Integer(s) if isinstance(s, int) else sympy.sympify(s.node.expr) for s in shape]


def _build(graph: torch.fx.Graph, node: torch.fx.Node, groups: list[Group]) -> Any:
    """One dimension per group, then the new dimensions; from the back, so counts hold."""
    value: Any = node.args[0]
    given: Any = node.args[1]
    targets = list(node.meta["val"].shape)

    def call(target: Callable[..., Any], *args: Any) -> Any:
        made = graph.call_function(target, (value, *args))
        made.meta = {key: node.meta[key] for key in node.meta if key not in ("val", "tensor_meta")}
        plain = [arg if isinstance(arg, int) else _plain(arg) for arg in args]
        made.meta["val"] = target(value.meta["val"], *plain)
        return made

    for before, after in reversed(groups):
        if len(before) == 0:  # a size of 1 that is new
            for _ in after:
                value = call(torch.ops.aten.unsqueeze.default, before.start)
        elif len(after) == 0:
            for dimension in reversed(before):
                value = call(torch.ops.aten.squeeze.dim, dimension)
        else:
            if len(before) > 1:
                value = call(torch.ops.aten.flatten.using_ints, before.start, before.stop - 1)
            if len(after) > 1:
                sizes = [targets[at] if isinstance(targets[at], int) else given[at] for at in after]
                value = call(torch.ops.aten.unflatten.int, before.start, sizes)
    return value


def _plain(argument: Any) -> Any:
    return [item.meta["val"] if isinstance(item, torch.fx.Node) else item for item in argument]


def _rename_output(program: ExportedProgram, old: str, new: str) -> None:
    from torch.export.graph_signature import TensorArgument

    for spec in program.graph_signature.output_specs:
        if isinstance(spec.arg, TensorArgument) and spec.arg.name == old:
            spec.arg = TensorArgument(name=new)
