"""Forward and backward of a model as one graph without side effects, by AOT autograd.

    loss = module(batch)   ->   loss, new buffers, gradients = joint(stored tensors, batch)

The forward is exported first, so that what is differentiated is what PyTorch's own autograd
would be given, and every operation, those of the backward too, knows the user's line and
module. Random numbers are drawn once: the backward of a dropout reads its forward's mask.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._functorch.aot_autograd import aot_export_joint_simple
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.graph import CodeGen
from torch.fx.traceback import preserve_node_meta
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as torch_pytree

from lemurc.errors import UnsupportedModelError
from lemurc.frontend.node_locations import MODULE, module_path
from lemurc.frontend.recurrent import loops_for_recurrent_layers
from lemurc.frontend.user_code import raising_line, said


@dataclass(frozen=True)
class Joint:
    """`graph` takes the tensors of `stored` in order, then those of the batch, flat.

    It returns the loss, new values of the buffers `changed`, gradients of the parameters
    `trained`. A tensor with several names is there once, under the first.
    """

    graph: GraphModule
    stored: dict[str, torch.Tensor]
    changed: tuple[str, ...]
    trained: tuple[str, ...]

    def __call__(
        self, stored: Sequence[Any], batch: Any
    ) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        """The loss, new buffers by name and gradients by name."""
        tensors = [x for x in torch_pytree.tree_leaves(batch) if isinstance(x, torch.Tensor)]
        loss, *rest = _run(self.graph, [*stored, *tensors])
        split = len(self.changed)
        return (
            loss,
            dict(zip(self.changed, rest[:split], strict=True)),
            dict(zip(self.trained, rest[split:], strict=True)),
        )


def differentiate(module: torch.nn.Module, batch: Any) -> Joint:
    """The joint graph of `module(batch)`, a scalar loss, for the parameters that want gradients."""
    # Kernels of the CPU's libraries hide what they compute: attention, and recurrent layers.
    with sdpa_kernel(SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=False):
        return _joint(_exported(module, batch), torch_pytree.tree_leaves(batch))


def _exported(module: torch.nn.Module, batch: Any) -> ExportedProgram:
    try:
        with torch.enable_grad(), loops_for_recurrent_layers():
            return torch.export.export(module, (batch,), strict=False)
    except UnsupportedModelError:
        raise
    except Exception as error:
        raise UnsupportedModelError(
            f"torch.export cannot trace the model with its loss: {said(error)}",
            code="export-failed",
            where=raising_line(error),
            hint="see https://docs.pytorch.org/docs/stable/export.html for what it accepts",
        ) from error


def _joint(program: ExportedProgram, batch: list[Any]) -> Joint:
    kept = [s for s in program.graph_signature.input_specs if s.kind is not InputKind.USER_INPUT]
    names: dict[int, str] = {}
    stored: dict[str, torch.Tensor] = {}
    places = []
    for spec in kept:
        tensor = _tensor(program, str(spec.target))
        name = names.setdefault(id(tensor), str(spec.target))
        stored[name] = tensor
        places.append(name)
    buffers = {str(spec.target) for spec in kept if spec.kind is InputKind.BUFFER}

    def forward(*flat: Any) -> tuple[Any, ...]:
        own = {
            name: value.clone() if name in buffers else value
            for name, value in zip(stored, flat, strict=False)
        }
        given = iter(flat[len(stored) :])
        leaves = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in batch]
        loss = _run(program.graph_module, [*(own[name] for name in places), *leaves])[0]
        return (loss, *(own[name] for name in stored if name in buffers))

    examples = [t.detach().clone().requires_grad_(t.requires_grad) for t in stored.values()]
    tensors = [leaf.detach().clone() for leaf in batch if isinstance(leaf, torch.Tensor)]
    with preserve_node_meta():
        graph = aot_export_joint_simple(forward, (*examples, *tensors), trace_joint=True)
    assert isinstance(graph, GraphModule)
    return _settled(graph, stored, [name for name in stored if name in buffers])


def _tensor(program: ExportedProgram, target: str) -> torch.Tensor:
    found = program.state_dict.get(target)
    value = found if found is not None else program.constants[target]
    assert isinstance(value, torch.Tensor)
    return value


def _settled(graph: GraphModule, stored: dict[str, torch.Tensor], buffers: list[str]) -> Joint:
    """Without results that are no news, and with the gradient of the loss, which is 1."""
    *inputs, tangent = (node for node in graph.graph.nodes if node.op == "placeholder")
    output = graph.graph.output_node()
    loss, *rest = torch_pytree.tree_leaves(output.args, is_leaf=lambda leaf: leaf is None)
    news = dict(zip(buffers, rest, strict=False))
    gradients = dict(zip(stored, rest[len(buffers) :], strict=False))
    source = dict(zip(stored, inputs, strict=False))
    changed = {name: node for name, node in news.items() if not _is_clone(node, source[name])}
    trained = {name: node for name, node in gradients.items() if node is not None}
    with graph.graph.inserting_after(tangent):
        one = graph.graph.call_function(
            torch.ops.aten.ones.default, ([],), {"dtype": tangent.meta["val"].dtype}
        )
    tangent.replace_all_uses_with(one)
    graph.graph.erase_node(tangent)
    output.args = ([loss, *changed.values(), *trained.values()],)
    graph.graph.set_codegen(CodeGen())  # flat, and without a treespec that copies would warn of
    graph.graph.eliminate_dead_code()
    graph.recompile()
    for node in graph.graph.nodes:
        if path := module_path(node):
            node.meta["custom"] = {**node.meta.get("custom", {}), MODULE: path}
    return Joint(graph, stored, tuple(changed), tuple(trained))


def _is_clone(node: Node, source: Node) -> bool:
    return node is source or (
        node.target is torch.ops.aten.clone.default and node.args[0] is source
    )


class _Interpreter(Interpreter):
    """Kernels lay out results otherwise than PyTorch's shape functions say, so that a view of
    one may have to be a copy."""

    extra_traceback = False

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is torch.ops.aten.view.default:
            target = torch.ops.aten.reshape.default
        return super().call_function(target, args, kwargs)


def _run(graph: GraphModule, values: list[Any]) -> list[Any]:
    """The results of `graph`, its operations traced under their own lines and modules."""
    with preserve_node_meta():
        return list(_Interpreter(graph).run(*values, enable_io_processing=False))
