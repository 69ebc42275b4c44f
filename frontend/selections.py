"""Results as long as the data says: `nonzero`, and selections by a boolean mask.

    nonzero(m)        m : [2, 3]     places = the true ones of 0..5 first, in order
                                     k = m.sum().item();  places[:k] in rows and columns
    x[m]              -> x[i, j]     by the columns i, j of nonzero(m)
    masked_select     the same

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
        if node.op != "call_function":
            continue
        if node.target is _aten.nonzero.default:
            columns = _columns(Edit(node), _only(node.args[0]), node)
            replace(program, node, Edit(node).call(_aten.stack.default, columns, 1))
        elif node.target is _aten.masked_select.default:
            replace(program, node, _masked_select(node))
        elif node.target is _aten.index.Tensor:
            _mask_to_columns(node)


def _masked_select(node: Node) -> Node:
    edit = Edit(node)
    values, mask = _only(node.args[0]), _only(node.args[1])
    values, mask = _broadcast(edit, values, mask)
    return edit.call(_aten.index.Tensor, values, _columns(edit, mask, node))


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


def _mask_to_columns(node: Node) -> None:
    """Masks among the indices become the columns of their true places."""
    indices: Any = node.args[1]
    masks = [i for i in indices if i is not None and i.meta["val"].dtype is torch.bool]
    if not masks:
        return
    edit = Edit(node)
    spread: list[Node | None] = []
    for index in indices:
        spread += _columns(edit, index, node) if index in masks else [index]
    node.update_arg(1, spread)


def _columns(edit: Edit, mask: Node, node: Node) -> list[Node]:
    """Where `mask` is true: one index tensor per dimension, of symbolic length."""
    shape = [edit.size(mask, dim) for dim in range(mask.meta["val"].dim())]
    numbers = edit.call(_aten.reshape.default, mask, [-1])
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
    length = edit.number(count, _symbol(node))
    found = edit.call(_aten.slice.Tensor, first, 0, 0, length)
    columns: list[Node] = []
    for size in reversed(shape):
        by = edit.tensor(size)
        columns.insert(0, edit.call(_aten.remainder.Tensor, found, by))
        found = edit.call(_aten.div.Tensor_mode, found, by, rounding_mode="floor")
    return columns


def _symbol(node: Node) -> torch.SymInt:
    value = node.meta["val"]
    symbols = node.meta.get("unbacked_bindings") or {}
    for size in value.shape:
        if isinstance(size, torch.SymInt) and size.node.expr in symbols:
            return size
    raise AssertionError(f"{node.name} has no size of its own")


def _only(argument: Any) -> Node:
    assert isinstance(argument, Node)
    return argument
