"""Results as long as the data says: `nonzero`, and selections by a boolean mask.

    places = the true ones of 0..5 first, in order;  k = m.sum().item()     m : [2, 3]
    x[m]          ->  x.flatten()[places[:k]]
    nonzero(m)    ->  places[:k] // 3, places[:k] % 3

torch-mlir's own lowering of these does not end. The number of results is read on the
host in the middle of the call, so a device other than the CPU waits there.
"""

import operator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from lemurc.frontend.graph_edits import Edit, replace

_aten = torch.ops.aten


def give_sizes_to_selections(program: ExportedProgram) -> None:
    for node in list(program.graph.nodes):
        if node.target is _aten.nonzero.default:
            edit = Edit(node)
            columns = _columns(edit, _only(node.args[0]), _length(node, 0))
            replace(program, node, edit.call(_aten.stack.default, columns, 1))
        elif node.target is _aten.masked_select.default:
            edit = Edit(node)
            values, mask = _broadcast(edit, _only(node.args[0]), _only(node.args[1]))
            replace(program, node, _selected(edit, values, mask, 0, _length(node, 0)))
        elif node.target is _aten.index.Tensor:
            indices: Any = node.args[1]
            given = [at for at, index in enumerate(indices) if index is not None]
            if len(given) == 1 and indices[given[0]].meta["val"].dtype is torch.bool:
                table, mask = _only(node.args[0]), indices[given[0]]
                size = _length(node, given[0])
                replace(program, node, _selected(Edit(node), table, mask, given[0], size))


def _selected(edit: Edit, values: Node, mask: Node, dim: int, size: torch.SymInt) -> Node:
    """Entries of `values` where `mask`, which stands for its dimensions from `dim` on."""
    rank = mask.meta["val"].dim()
    if rank > 1:
        values = edit.call(_aten.flatten.using_ints, values, dim, dim + rank - 1)
    return edit.call(_aten.index_select.default, values, dim, _places(edit, mask, size))


def _broadcast(edit: Edit, values: Node, mask: Node) -> list[Node]:
    """Both at the shape of both; `expand` keeps what is -1."""
    parts = [values, mask]
    shape = torch.broadcast_shapes(*(part.meta["val"].shape for part in parts))
    spread = []
    for part in parts:
        own = part.meta["val"].shape
        sizes: list[Any] = []
        for dim in range(len(shape)):
            at = dim - len(shape) + len(own)
            other = parts[0] if part is mask else parts[1]
            there = dim - len(shape) + other.meta["val"].dim()
            keeps = at >= 0 and own[at] == shape[dim]
            sizes.append(-1 if keeps else edit.size(other, there))
        spread.append(edit.call(_aten.expand.default, part, sizes))
    return spread


def _columns(edit: Edit, mask: Node, size: torch.SymInt) -> list[Node]:
    """Where `mask` is true: one index tensor per dimension, of symbolic length."""
    found = _places(edit, mask, size)
    columns: list[Node] = []
    for dim in reversed(range(mask.meta["val"].dim())):
        by = edit.tensor(edit.size(mask, dim))
        columns.insert(0, edit.call(_aten.remainder.Tensor, found, by))
        found = edit.call(_aten.div.Tensor_mode, found, by, rounding_mode="floor")
    return columns


def _places(edit: Edit, mask: Node, size: torch.SymInt) -> Node:
    """The numbers of the true elements of `mask`, counted row by row; `size` of them."""
    numbers = edit.call(_aten.reshape.default, mask, [-1])
    if mask.meta["val"].dtype is not torch.bool:
        numbers = edit.call(_aten.ne.Scalar, numbers, 0)
    numbers = edit.call(_aten._to_copy.default, numbers, dtype=torch.int64)
    total = edit.size(numbers, 0)
    one_more = total + 1 if isinstance(total, int) else edit.call(operator.add, total, 1)
    before = edit.call(_aten.cumsum.default, numbers, 0)
    target = edit.call(_aten.sub.Tensor, before, 1)
    unused = edit.call(_aten.full.default, [], total, dtype=torch.int64)
    chosen = edit.call(_aten.gt.Scalar, numbers, 0)
    target = edit.call(_aten.where.self, chosen, target, unused)
    places = edit.call(_aten.arange.start_step, 0, total, 1, dtype=torch.int64)
    first = edit.call(_aten.full.default, [one_more], 0, dtype=torch.int64)
    first = edit.call(_aten.scatter.src, first, 0, target, places)
    count = edit.call(_aten.sum.default, numbers)
    length = edit.number(count, size)
    return edit.call(_aten.slice.Tensor, first, 0, 0, length)


def _length(node: Node, dim: int) -> torch.SymInt:
    """The exporter's symbol for the number of results; selections by one mask share it."""
    size = node.meta["val"].shape[dim]
    assert isinstance(size, torch.SymInt)
    return size


def _only(argument: Any) -> Node:
    assert isinstance(argument, Node)
    return argument
