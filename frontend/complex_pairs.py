"""Complex values as pairs of reals, for torch-mlir and targets that have no others.

    z = x * y                     re = xr * yr - xi * yi
                            ->    im = xr * yi + xi * yr

Every operator with a complex operand or result is traced once more over pairs, through
PyTorch's `ComplexTensor`, and what that records takes its place. Only inputs, weights
and results of the program stay complex: each is taken apart, or put together, at once.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._subclasses.complex_tensor import ComplexTensor
from torch._subclasses.complex_tensor._ops.common import lookup_complex
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as torch_pytree

from lemurc.errors import UnsupportedModelError
from lemurc.frontend.node_locations import python_line
from lemurc.frontend.operators.complex_functions import TABLE
from lemurc.frontend.views import _rename_output

_REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}


_PART_BY_PART = (
    "as_strided",
    "narrow",
    "reflection_pad1d",
    "reflection_pad2d",
    "repeat_interleave",
    "replication_pad1d",
    "replication_pad2d",
    "reshape",
    "roll",
    "tril",
    "triu",
    "unfold",
)
"""Operators whose first operand may be complex and that only move its entries."""


def expand_complex(program: ExportedProgram) -> bool:
    """Rewrite `program` in place; False when nothing in it is complex."""
    nodes = [node for node in program.graph.nodes if node.op in ("placeholder", "call_function")]
    if not any(_is_complex(leaf) for node in nodes for leaf in _leaves(node.meta.get("val"))):
        return False
    for node in list(program.graph.nodes):
        if node.target is torch.ops.aten._assert_tensor_metadata.default:
            program.graph.erase_node(node)
    _Expansion(program).run()
    return True


class _Expansion:
    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.graph = program.graph
        self.made: dict[torch.fx.Node, Any] = {}
        """For a node with complex values: its results, a pair of nodes for each."""
        self.body = next(node for node in self.graph.nodes if node.op != "placeholder")

    def run(self) -> None:
        for node in list(self.graph.nodes):
            if node.op == "placeholder" and _is_complex(node.meta.get("val")):
                self.made[node] = self._taken_apart(node)
            elif node.op == "call_function" and self._is_concerned(node):
                self._expand(node)
            elif node.op == "output":
                self._put_together(node)
        for node in reversed(list(self.graph.nodes)):
            concerned = node in self.made or any(
                _is_complex(leaf) for leaf in _leaves(node.meta.get("val"))
            )
            if node.op == "call_function" and concerned and not node.users:
                self.graph.erase_node(node)
        self.graph.lint()
        self.program.graph_module.recompile()

    def _is_concerned(self, node: torch.fx.Node) -> bool:
        values = [_leaves(used.meta.get("val")) for used in node.all_input_nodes]
        values.append(_leaves(node.meta.get("val")))
        return any(_is_complex(leaf) for leaves in values for leaf in leaves)

    def _taken_apart(self, node: torch.fx.Node) -> tuple[torch.fx.Node, torch.fx.Node]:
        with self.graph.inserting_before(self.body):
            both = self._call(torch.ops.aten.view_as_real.default, (node,), node)
            parts = [
                self._call(torch.ops.aten.select.int, (both, -1, part), node) for part in (0, 1)
            ]
        return parts[0], parts[1]

    def _put_together(self, output: torch.fx.Node) -> None:
        for node in list(output.all_input_nodes):
            if node not in self.made:
                continue
            if node.op == "placeholder":
                continue
            with self.graph.inserting_before(output):
                stack = torch.ops.aten.stack.default
                both = self._call(stack, (list(self.made[node]), -1), node)
                whole = self._call(torch.ops.aten.view_as_complex.default, (both,), node)
            output.replace_input_with(node, whole)
            _rename_output(self.program, node.name, whole.name)

    def _call(
        self, target: Callable[..., Any], args: tuple[Any, ...], like: torch.fx.Node
    ) -> torch.fx.Node:
        made = self.graph.call_function(target, args)
        made.meta = _without_value(like)
        values = torch_pytree.tree_map(
            lambda item: item.meta["val"] if isinstance(item, torch.fx.Node) else item, args
        )
        made.meta["val"] = target(*values)
        return made

    def _expand(self, node: torch.fx.Node) -> None:
        if node.target.__name__ == "getitem":  # type: ignore[union-attr]
            source, index = node.args
            made = self.made[source][index]  # type: ignore[index]
        else:
            made = self._traced(node)
        if isinstance(made, torch.fx.Node):
            node.replace_all_uses_with(made)
            _rename_output(self.program, node.name, made.name)
        self.made[node] = made

    def _traced(self, node: torch.fx.Node) -> Any:
        """Inline what the operator does to pairs; a node, a pair, or a list of them."""
        leaves, spec = torch_pytree.tree_flatten((node.args, node.kwargs))
        inputs: list[torch.fx.Node] = []
        places: list[list[int]] = []
        for leaf in leaves:
            parts: tuple[torch.fx.Node, ...] = ()
            if isinstance(leaf, torch.fx.Node):
                parts = self.made[leaf] if leaf in self.made else (leaf,)
            places.append([len(inputs) + offset for offset in range(len(parts))])
            inputs.extend(parts)
        result_spec: list[Any] = []

        def over_pairs(*values: Any) -> list[Any]:
            rebuilt = [
                leaf
                if not at
                else (
                    ComplexTensor(values[at[0]], values[at[1]]) if len(at) == 2 else values[at[0]]
                )
                for leaf, at in zip(leaves, places, strict=True)
            ]
            args, kwargs = torch_pytree.tree_unflatten(rebuilt, spec)
            result = _apply(node, args, kwargs)
            flat, tree = torch_pytree.tree_flatten(result)
            result_spec.append(([isinstance(item, ComplexTensor) for item in flat], tree))
            return [
                part
                for item in flat
                for part in ((item.re, item.im) if isinstance(item, ComplexTensor) else (item,))
            ]

        examples = [item.meta["val"] for item in inputs]
        mode = next((v.fake_mode for v in examples if hasattr(v, "fake_mode")), None)
        if mode is None:
            mode = node.meta["val"].fake_mode
        allowed, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
        try:
            with mode:
                recorded = make_fx(over_pairs)(*examples)
        finally:
            mode.allow_non_fake_inputs = allowed
        parts_made = self._inlined(recorded, inputs, node, mode)
        kinds, tree = result_spec[-1]
        rest = iter(parts_made)
        results = [(next(rest), next(rest)) if pair else next(rest) for pair in kinds]
        return torch_pytree.tree_unflatten(results, tree)

    def _inlined(
        self,
        recorded: torch.fx.GraphModule,
        inputs: list[torch.fx.Node],
        like: torch.fx.Node,
        mode: Any,
    ) -> list[torch.fx.Node]:
        mapped: dict[torch.fx.Node, torch.fx.Node] = {}
        given = iter(inputs)
        with self.graph.inserting_before(like):
            for node in recorded.graph.nodes:
                if node.op == "placeholder":
                    mapped[node] = next(given)
                elif node.op == "get_attr":
                    mapped[node] = self._constant(getattr(recorded, node.target))
                elif node.op == "output":
                    return [mapped[item] for item in node.args[0]]
                else:
                    copied = self.graph.node_copy(node, lambda item: mapped[item])
                    copied.meta = _without_value(like)
                    args, kwargs = torch.fx.map_arg(
                        (copied.args, copied.kwargs), lambda item: item.meta["val"]
                    )
                    with mode:
                        copied.meta["val"] = node.target(*args, **kwargs)
                    mapped[node] = copied
        raise AssertionError("a graph without output")

    def _constant(self, value: torch.Tensor) -> torch.fx.Node:
        """A new input of the program that holds a constant; equal ones are shared."""
        constants = self.program.constants
        for name, known in constants.items():
            if name.startswith("_lemurc_constant") and torch.equal(known, value):
                return next(n for n in self.graph.nodes if n.name == f"c{name}")
        name = f"_lemurc_constant{sum(key.startswith('_lemurc_') for key in constants)}"
        first = next(iter(self.graph.nodes))
        with self.graph.inserting_before(first):
            node = self.graph.placeholder(f"c{name}")
        mode = next(
            v.fake_mode
            for other in self.graph.nodes
            for v in _leaves(other.meta.get("val"))
            if hasattr(v, "fake_mode")
        )
        node.meta["val"] = mode.from_tensor(value, static_shapes=True)
        constants[name] = value
        spec = InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(name=node.name), name)
        self.program.graph_signature.input_specs.insert(0, spec)
        return node


def _apply(node: torch.fx.Node, args: Any, kwargs: Any) -> Any:
    """The operator on pairs: ours, ComplexTensor's, or one that never sees a pair."""
    own = TABLE.get(node.target)
    if own is not None:
        return own(*args, **kwargs)
    value = node.meta.get("val")
    result = next((leaf for leaf in _leaves(value) if _is_complex(leaf)), None)
    real = _REAL[result.dtype] if result is not None else torch.get_default_dtype()

    def pair_of_number(item: Any) -> Any:
        if not isinstance(item, complex):
            return item
        parts = (torch.scalar_tensor(part, dtype=real) for part in (item.real, item.imag))
        return ComplexTensor(*parts)

    args, kwargs = torch_pytree.tree_map(pair_of_number, (args, kwargs))
    implementation = lookup_complex(node.target, *args, **kwargs)  # type: ignore[arg-type]
    implementation = implementation or decomposition_table.get(node.target)  # type: ignore[call-overload]
    if implementation is None and _name(node) in _PART_BY_PART:
        first, *rest = args
        parts = (node.target(part, *rest, **kwargs) for part in (first.re, first.im))  # type: ignore[operator]
        return ComplexTensor(*parts)
    if implementation is None:
        operands = [*torch_pytree.tree_leaves(args), *torch_pytree.tree_leaves(kwargs)]
        if any(isinstance(item, ComplexTensor) for item in operands):
            raise UnsupportedModelError(
                f"the model uses an operation on complex numbers that cannot be compiled:\n"
                f"  aten.{_name(node)} x1 at {python_line(node) or 'unknown line'}",
                code="unsupported-ops",
                hint="write it with the real and imaginary parts, torch.view_as_real(z)",
            )
        return node.target(*args, **kwargs)  # type: ignore[operator]
    return implementation(*args, **kwargs)


def _name(node: torch.fx.Node) -> str:
    return str(node.target._overloadpacket).removeprefix("aten.")  # type: ignore[union-attr]


def _is_complex(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_complex()


def _leaves(value: Any) -> list[Any]:
    return torch_pytree.tree_leaves(value)


def _without_value(node: torch.fx.Node) -> dict[str, Any]:
    return {key: node.meta[key] for key in node.meta if key not in ("val", "tensor_meta")}
