"""Arithmetic of constants by eager, before torch-mlir does it.

    full([4], -1.75) + (-3)   ->   full([4], -4.75)
    x == 0                    ->   x == 0.0            of a float x
    sub.Tensor(3.14, x)       ->   sub.Tensor(full([], 3.14), x)    of an f64 x
    sub.Tensor(n, x)          ->   sub.Tensor(scalar_tensor(n), x)  of a dynamic size n

torch-mlir folds what it knows of a constant tensor and a number of another type by the
number's bits: -3 counts as 1.8e19, 0.0 is not 0, an integer below 0.5 kills the process.
Its remainder of constants has the sign of the dividend.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from lemurc.frontend.graph_edits import Edit, replace

_aten = torch.ops.aten
_FILLS: dict[Any, Callable[[Node], Any]] = {
    _aten.full.default: lambda node: node.args[1],
    _aten.full_like.default: lambda node: node.args[1],
    _aten.new_full.default: lambda node: node.args[2],
    _aten.new_ones.default: lambda node: 1,
    _aten.new_zeros.default: lambda node: 0,
    _aten.ones.default: lambda node: 1,
    _aten.ones_like.default: lambda node: 1,
    _aten.scalar_tensor.default: lambda node: node.args[0],
    _aten.zeros.default: lambda node: 0,
    _aten.zeros_like.default: lambda node: 0,
}
_SAME_NUMBERS = frozenset(
    {
        _aten.alias.default,
        _aten.clone.default,
        _aten.expand.default,
        _aten.permute.default,
        _aten.reshape.default,
        _aten.select.int,
        _aten.slice.Tensor,
        _aten.squeeze.default,
        _aten.squeeze.dim,
        _aten.squeeze.dims,
        _aten.transpose.int,
        _aten.unsqueeze.default,
        _aten.view.default,
    }
)
_WITH_NUMBERS = frozenset(
    {
        _aten.add.Scalar,
        _aten.eq.Scalar,
        _aten.fmod.Scalar,
        _aten.ge.Scalar,
        _aten.gt.Scalar,
        _aten.le.Scalar,
        _aten.lt.Scalar,
        _aten.mul.Scalar,
        _aten.ne.Scalar,
        _aten.remainder.Scalar,
        _aten.rsub.Scalar,
        _aten.sub.Scalar,
    }
)
_EXACT = 2**53
_SYMBOLIC = {
    torch.SymBool: torch.bool,
    torch.SymInt: torch.int64,
    torch.SymFloat: torch.float64,
}
_NUMBERS = (int, float, *_SYMBOLIC)


def fold_constants(program: ExportedProgram) -> None:
    """Where the result has a fixed size; the rest meets no folder of torch-mlir's."""
    known: dict[Node, torch.Tensor] = {}
    for node in list(program.graph.nodes):
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(value, torch.Tensor):
            continue
        if value.is_complex():
            continue
        if (number := _number(node, known)) is None:
            continue
        known[node] = number
        if _is_pointwise(node) and all(isinstance(size, int) for size in value.shape):
            made = Edit(node).call(
                _aten.full.default, list(value.shape), number.item(), dtype=value.dtype
            )
            known[made] = number
            replace(program, node, made)


def _is_pointwise(node: Node) -> bool:
    tags = getattr(node.target, "tags", ())
    return torch.Tag.pointwise in tags or node.target is _aten._to_copy.default


def _number(node: Node, known: dict[Node, torch.Tensor]) -> torch.Tensor | None:
    """The one number that every element of its result is, of rank 0; None of others."""
    dtype = node.meta["val"].dtype
    if (fill := _FILLS.get(node.target)) is not None:
        number = fill(node)
        return None if isinstance(number, Node) else torch.full([], number, dtype=dtype)
    operands = node.all_input_nodes
    if not operands or any(operand not in known for operand in operands):
        return None
    if node.target in _SAME_NUMBERS:
        return known[operands[0]]
    if not _is_pointwise(node) or torch.Tag.nondeterministic_seeded in node.target.tags:  # type: ignore[union-attr]
        return None

    def tensor(operand: Node) -> torch.Tensor:
        # Types of rank 0 count less in promotion.
        return known[operand].reshape([1] * min(operand.meta["val"].dim(), 1))

    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), tensor)
    try:
        made: Any = node.target(*args, **kwargs)  # type: ignore[operator]
    except RuntimeError:
        return None  # it fails at run time, too
    return made.flatten()[0].to(dtype)


def match_numbers(program: ExportedProgram) -> None:
    """Give numbers beside tensors the type that both are computed in."""
    for node in list(program.graph.nodes):
        _make_tensors(node)
        if node.target not in _WITH_NUMBERS:
            continue
        tensor, number = node.args[0], node.args[1]
        if not isinstance(tensor, Node) or not isinstance(number, bool | int | float):
            continue
        value = tensor.meta["val"]
        common = torch.result_type(value, number)
        if value.is_complex():
            continue
        if common.is_floating_point and abs(number) <= _EXACT:
            node.update_arg(1, float(number))
        if common is not value.dtype:
            node.update_arg(0, Edit(node).call(_aten._to_copy.default, tensor, dtype=common))


def _make_tensors(node: Node) -> None:
    """Of numbers where an operator takes tensors.

    The importer leaves a size as a number, makes f32 of numbers beside f64, and writes of a
    boolean what torch-mlir does not read.
    """
    if not isinstance(node.target, torch._ops.OpOverload):
        return
    operands = [operand.meta["val"] for operand in node.all_input_nodes]
    tensors = [value for value in operands if isinstance(value, torch.Tensor)]
    for at, (argument, parameter) in enumerate(
        zip(node.args, node.target._schema.arguments, strict=False)
    ):
        number: Any = argument.meta["val"] if isinstance(argument, Node) else argument
        is_number: bool = isinstance(number, _NUMBERS)
        if not is_number or not isinstance(parameter.type, torch.TensorType):
            continue
        common = torch.result_type(tensors[0], number) if tensors else None
        edit = Edit(node)
        if isinstance(argument, Node):
            own = _SYMBOLIC[type(number)]
            made = edit.call(_aten.scalar_tensor.default, argument, dtype=own)
            if common not in (None, own):
                made = edit.call(_aten._to_copy.default, made, dtype=common)
            node.update_arg(at, made)
        elif common is torch.float64 or isinstance(number, bool):
            node.update_arg(at, edit.call(_aten.full.default, [], argument, dtype=common))
