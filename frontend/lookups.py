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
    "aten.nll_loss",
    "aten.one_hot",
    "aten.scatter",
    "aten.take",
)


def guard_lookups(program: ExportedProgram, guards: Guards) -> None:
    for node in list(program.graph.nodes):
        if node.op == "call_function" and _is_written(node):
            for index, dim, low in list(_indices(node)):
                _guard(node, index, dim, low, guards)


def _is_written(node: Node) -> bool:
    """Whether the model itself has this lookup."""
    if MADE in node.meta:
        return False
    origins = node.meta.get("from_node") or ()
    return not origins or str(origins[-1].target).startswith(_WRITTEN)


def _indices(node: Node) -> Iterator[tuple[Node, int, bool]]:
    """Each index tensor, the dimension of the table, and whether -1 is its last entry."""
    target: Any = node.target
    args: Any = node.args
    if target is _aten.embedding.default:
        yield args[1], 0, False
    elif target in _ALONG_DIMENSION:
        rank = max(args[0].meta["val"].dim(), 1)
        if args[0].meta["val"].dim():
            yield args[2], args[1] % rank, False
    elif target in _BY_TENSORS:
        dim = 0
        for index in args[1]:
            if index is None:
                dim += 1
            elif index.meta["val"].dtype in (torch.bool, torch.uint8):
                dim += index.meta["val"].dim()
            else:
                yield index, dim, True
                dim += 1


def _guard(node: Node, index: Node, dim: int, negative: bool, guards: Guards) -> None:
    table: Any = node.args[0]
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
    if bounded is not index:
        node.replace_input_with(index, bounded)


def _from_the_front(node: Node, index: Node, table: Node, dim: int) -> Node:
    """Negative indices plus the size, which only the call knows."""
    edit = Edit(node)
    size = edit.tensor(edit.size(table, dim))
    below = edit.call(_aten.lt.Scalar, index, 0)
    counted = edit.call(_aten.add.Tensor, index, size)
    return edit.call(_aten.where.self, below, counted, index)
