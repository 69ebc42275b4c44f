"""Control flow of torch.cond, map and scan as plain operators.

    map(f, xs)              f of each row, then stack           at most 256 rows
    scan(f, init, xs)       f step by step                      at most 256 steps
    cond(p, f, g, xs)       where(p, f(xs), g(xs))              both branches run

Branches of an exported program have no side effects, so running both is safe; it costs
the time of both. What is longer or depends on dynamic sizes stays, to be refused with
its name (see importer.py).
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

_LONGEST = 256
_Values = list[Any]


def unroll_control_flow(program: ExportedProgram) -> ExportedProgram:
    """`program` itself when it has none of these, otherwise a copy without them."""
    if not any(_handler(node) for node in program.graph.nodes):
        return program
    # the submodules are shared: they are only read
    root = GraphModule(program.graph_module, copy.deepcopy(program.graph))
    while (found := next((n for n in root.graph.nodes if _handler(n)), None)) is not None:
        _replace(root, found)
    root.graph.eliminate_dead_code()
    root.recompile()
    updated: ExportedProgram = program._update(root, program.graph_signature)
    return updated


def _handler(node: Node) -> Callable[["_Inliner", Node], _Values] | None:
    if node.op != "call_function" or not isinstance(node.target, torch._ops.HigherOrderOperator):
        return None
    handler = _HANDLERS.get(node.target.__name__)
    if handler in (_map, _scan):
        stacked = node.args[1] if handler is _map else node.args[2]
        assert isinstance(stacked, (list, tuple))
        lengths = [item.meta["val"].shape[0] for item in stacked]
        if any(not isinstance(length, int) or length > _LONGEST for length in lengths):
            return None
    if handler is _cond and not isinstance(_value(node.args[0]), torch.Tensor):
        return None
    return handler


def _value(argument: Any) -> Any:
    return argument.meta.get("val") if isinstance(argument, Node) else argument


def _replace(root: GraphModule, node: Node) -> None:
    handler = _handler(node)
    assert handler is not None
    with root.graph.inserting_before(node):
        results = handler(_Inliner(root, node), node)
    for user in list(node.users):
        if user.target.__name__ == "getitem":  # type: ignore[union-attr]
            made = results[user.args[1]]  # type: ignore[index]
            made.name, user.name = user.name, f"{user.name}_before"  # the signature has the name
            user.replace_all_uses_with(made)
            root.graph.erase_node(user)
    root.graph.erase_node(node)


class _Inliner:
    """Puts copies of a branch or body before one node."""

    def __init__(self, root: GraphModule, like: Node) -> None:
        self.root = root
        self.like = like

    def body(self, node: Any) -> GraphModule:
        found = self.root.get_submodule(node.target)
        assert isinstance(found, GraphModule)
        return found

    def call(self, target: Any, *args: Any) -> Node:
        made = self.root.graph.call_function(target, args)
        made.meta = {k: v for k, v in self.like.meta.items() if k not in ("val", "tensor_meta")}
        values = torch.fx.map_arg(args, lambda item: item.meta["val"])
        made.meta["val"] = target(*values)
        return made

    def inline(self, body: GraphModule, arguments: _Values) -> _Values:
        mapped: dict[Node, Any] = {}
        given = iter(arguments)
        for node in body.graph.nodes:
            if node.op == "placeholder":
                mapped[node] = next(given)
            elif node.op == "output":
                return [mapped[item] if isinstance(item, Node) else item for item in node.args[0]]
            else:
                copied = self.root.graph.node_copy(node, lambda item: mapped[item])
                if node.op == "get_attr":
                    copied.target = self._adopted(getattr(body, node.target))
                mapped[node] = copied
        raise AssertionError("a graph without output")

    def _adopted(self, value: Any) -> str:
        name = f"lemurc_adopted_{len(self.root._modules)}_{len(self.root._buffers)}"
        if isinstance(value, torch.nn.Module):
            self.root.add_module(name, value)
        else:
            self.root.register_buffer(name, value)
        return name

    def row(self, values: Any, at: int) -> _Values:
        return [self.call(torch.ops.aten.select.int, value, 0, at) for value in values]

    def stacked(self, rows: list[_Values]) -> _Values:
        stack = torch.ops.aten.stack.default
        return [self.call(stack, list(column), 0) for column in zip(*rows, strict=True)]


def _map(inliner: _Inliner, node: Node) -> _Values:
    body, mapped, shared = node.args
    length = mapped[0].meta["val"].shape[0]  # type: ignore[index,union-attr]
    inner = inliner.body(body)
    rows = [
        inliner.inline(inner, [*inliner.row(mapped, at), *shared])  # type: ignore[misc]
        for at in range(length)
    ]
    return inliner.stacked(rows)


def _scan(inliner: _Inliner, node: Node) -> _Values:
    body, initial, mapped, shared = node.args[:4]
    length = mapped[0].meta["val"].shape[0]  # type: ignore[index,union-attr]
    inner = inliner.body(body)
    carried: _Values = list(initial)  # type: ignore[arg-type]
    rows = []
    for at in range(length):
        row = inliner.row(mapped, at)
        made = inliner.inline(inner, [*carried, *row, *shared])  # type: ignore[misc]
        carried, rest = made[: len(carried)], made[len(carried) :]
        rows.append(rest)
    return [*carried, *inliner.stacked(rows)]


def _cond(inliner: _Inliner, node: Node) -> _Values:
    predicate, yes, no, operands = node.args
    branches = [
        inliner.inline(inliner.body(branch), list(operands))  # type: ignore[arg-type]
        for branch in (yes, no)
    ]
    where = torch.ops.aten.where.self
    return [inliner.call(where, predicate, *pair) for pair in zip(*branches, strict=True)]


_HANDLERS: dict[str, Callable[[_Inliner, Node], _Values]] = {
    "cond": _cond,
    "map_impl": _map,
    "scan": _scan,
}
