"""Indices into tables: which operations have them, and how far they may reach.

Only what the model wrote itself is guarded: decompositions keep their own indices in
range (the interpolation of an upsampling, say).
"""

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from lemurc.frontend.graph_edits import MADE, Edit
from lemurc.frontend.guards import Guards

_aten = torch.ops.aten
_ALONG_DIMENSION = frozenset(
    {
        _aten.gather.default,
        _aten.index_add.default,
        _aten.index_copy.default,
        _aten.index_select.default,
        _aten.scatter.src,
        _aten.scatter.value,
        _aten.scatter_add.default,
        _aten.scatter_reduce.two,
    }
)
"""(table, dimension, index, ...)"""
_BY_TENSORS = frozenset({_aten.index.Tensor, _aten.index_put.default})
"""(table, [index or None per dimension], ...), counted from the end when negative"""
_WRITTEN = (
    "aten.__getitem__",
    "aten.cross_entropy_loss",
    "aten.embedding",
    "aten.gather",
    "aten.index",
    "aten.max_unpool",
    "aten.multi_margin_loss",
    "aten.nll_loss",
    "aten.one_hot",
    "aten.put",
    "aten.scatter",
    "aten.take",
)
_FROM_THE_FRONT = ("aten.index_add", "aten.index_copy", "aten.max_unpool")
"""Eager refuses negative indices here, whatever they are decomposed into."""
_Place = tuple[int, ...]
"""Into a node's arguments."""


def guard_lookups(program: ExportedProgram, guards: Guards) -> None:
    for node in list(program.graph.nodes):
        if node.op == "call_function" and _is_written(node):
            for place, dim, low in list(_indices(node)):
                _guard(node, place, dim, low, guards)


def _is_written(node: Node) -> bool:
    """Whether the model itself has this lookup."""
    return MADE not in node.meta and _origin(node).startswith(_WRITTEN)


def _origin(node: Node) -> str:
    """What the model called, as far as it is known."""
    origins = node.meta.get("from_node") or ()
    return str((origins[-1] if origins else node).target)


def _indices(node: Node) -> Iterator[tuple[_Place, int, bool]]:
    """Where each index tensor is, the dimension of the table, and whether -1 is its last entry."""
    target: Any = node.target
    args: Any = node.args
    if target is _aten.embedding.default:
        yield (1,), 0, False
    elif target in _ALONG_DIMENSION:
        rank = max(args[0].meta["val"].dim(), 1)
        if args[0].meta["val"].dim():
            yield (2,), args[1] % rank, False
    elif target in _BY_TENSORS:
        dim = 0
        from_the_end = not _origin(node).startswith(_FROM_THE_FRONT)
        for at, index in enumerate(args[1]):
            if index is None:
                dim += 1
            elif index.meta["val"].dtype in (torch.bool, torch.uint8):
                dim += index.meta["val"].dim()
            else:
                yield (1, at), dim, from_the_end
                dim += 1


def _at(node: Node, place: _Place) -> Any:
    value: Any = node.args
    for at in place:
        value = value[at]
    return value


def _put(node: Node, place: _Place, value: Node) -> None:
    """One tensor may be the index of two dimensions, so that its places count."""
    first, *rest = place
    argument: Any = value
    if rest:
        indices = list(_at(node, (first,)))
        indices[rest[0]] = value
        argument = indices
    node.update_arg(first, argument)


def _guard(node: Node, place: _Place, dim: int, negative: bool, guards: Guards) -> None:
    table: Any = node.args[0]
    index: Node = _at(node, place)
    size = table.meta["val"].shape[dim]
    known = isinstance(size, int)
    extent = size if isinstance(size, int) else size.node.expr
    reason = f"index into dimension {dim} of size {size if known else 'dynamic'}"
    if dim == 0 and known:
        reason = f"index into a table of size {size}"

    def last(edit: Edit) -> Any:
        length = edit.size(table, dim)
        return edit.call(operator.sub, length, 1) if isinstance(length, Node) else length - 1

    low = -extent if negative and known else 0
    counted = index
    if negative and not known and guards.negative(index):
        counted = _from_the_front(node, index, table, dim)
    bounded = guards.bounded(node, counted, low, extent - 1, reason, None if known else last)
    if known and node.target is _aten.index_put.default and guards.negative(index):
        # torch-mlir counts from the end where it reads, and not where it writes.
        bounded = _from_the_front(node, bounded, table, dim)
    if bounded is not index:
        _put(node, place, bounded)


def _from_the_front(node: Node, index: Node, table: Node, dim: int) -> Node:
    """Negative indices plus the size, which only the call knows."""
    edit = Edit(node)
    size = edit.tensor(edit.size(table, dim))
    below = edit.call(_aten.lt.Scalar, index, 0)
    counted = edit.call(_aten.add.Tensor, index, size)
    return edit.call(_aten.where.self, below, counted, index)
