"""New nodes in an exported graph, with the metadata the importer reads."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import TensorArgument
from torch.fx import Node
from torch.fx.passes.shape_prop import _extract_tensor_metadata

Graph = torch.fx.Graph


MADE = "lemurc_made"
"""Marks nodes that are not the user's: they need no guards."""


class Edit:
    """Makes nodes before `node` that count as part of it: same module, same line."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        made = self._node(target, args, kwargs)
        plain_args, plain_kwargs = torch.fx.node.map_arg((args, kwargs), lambda n: n.meta["val"])
        with fake_mode(self.node.graph):
            value = made.meta["val"] = target(*plain_args, **plain_kwargs)
        if isinstance(value, torch.Tensor) and all(isinstance(n, int) for n in value.shape):
            # the importer asks for it where a number is read with .item()
            made.meta["tensor_meta"] = _extract_tensor_metadata(value)
        return made

    def number(self, source: Node, symbol: torch.SymInt) -> Node:
        """`source.item()`, for a number that the exporter already has a symbol for."""
        made = self._node(torch.ops.aten._local_scalar_dense.default, (source,), {})
        made.meta["val"] = symbol
        return made

    def _node(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Node:
        with self.node.graph.inserting_before(self.node):
            made = self.node.graph.call_function(target, args, kwargs)
        made.meta = {
            key: value
            for key, value in self.node.meta.items()
            if key not in ("val", "tensor_meta", "unbacked_bindings")
        }
        made.meta[MADE] = True
        return made

    def size(self, value: Node, dim: int) -> int | Node:
        """A number, or the node that knows it at run time."""
        size = value.meta["val"].shape[dim]
        return size if isinstance(size, int) else self.call(torch.ops.aten.sym_size.int, value, dim)

    def tensor(self, number: Any) -> Node:
        """A Python number, known or symbolic, as an int64 tensor of rank 0."""
        return self.call(torch.ops.aten.scalar_tensor.default, number, dtype=torch.int64)


def replace(program: ExportedProgram, node: Node, replacement: Node) -> None:
    """Everywhere, also as a result of the program."""
    node.replace_all_uses_with(replacement)
    for spec in program.graph_signature.output_specs:
        if isinstance(spec.arg, TensorArgument) and spec.arg.name == node.name:
            spec.arg = TensorArgument(name=replacement.name)
    program.graph.erase_node(node)


def output_node(program: ExportedProgram) -> Node:
    return next(node for node in reversed(program.graph.nodes) if node.op == "output")


@contextmanager
def fake_mode(graph: Graph) -> Iterator[None]:
    """In it new tensors are fake ones of the graph's own kind."""
    from torch._guards import detect_fake_mode

    values = [node.meta.get("val") for node in graph.nodes]
    mode = detect_fake_mode([value for value in values if isinstance(value, torch.Tensor)])
    with mode if mode is not None else nullcontext():
        yield
