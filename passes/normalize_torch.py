"""Spellings of torch operations that torch-mlir lowers, for those it does not.

scatter(%x, dim = -1, ...)                 -> dim = rank - 1        (else: it crashes)
attention(%q, %k, %v, mask [t, t])         -> mask [1, 1, t, t]     (else: it refuses)
attention(%q [t, d], %k, %v)               -> [1, t, d], squeezed   (else: it refuses)
sub(%x : si8, 8)                           -> add(%x, -8)           (else: it crashes)
operator "_native_batch_norm_legit_no_training" -> batch_norm       (else: it refuses)
"""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.passes.base import Pass
from lemurc.passes.exact_functions import rewrite_exactly
from lemurc.passes.torch_constants import constant, dtype, is_tensor, shape
from lemurc.passes.torch_operations import convert, create, number, with_dtype, with_shape

_DIM_OPERAND = {
    "torch.aten.gather": 1,
    "torch.aten.index_select": 1,
    "torch.aten.scatter.src": 1,
    "torch.aten.scatter.value": 1,
    "torch.aten.scatter_add": 1,
    "torch.aten.scatter_reduce.two": 1,
    "torch.aten.index_add": 1,
    "torch.aten.index_copy": 1,
}
_DTYPE_OPERAND = {
    "torch.aten.cumsum": 2,
    "torch.aten.mean": 1,
    "torch.aten.mean.dim": 3,
    "torch.aten.sum": 1,
    "torch.aten.sum.dim_IntList": 3,
}
"""Sums, which eager accumulates in f32 whatever the type of the result is."""
_HALF = ("f16", "bf16")
_NARROW_INTEGERS = ("si8", "ui8", "si16")
_ATTENTION = "torch.aten.scaled_dot_product_attention"
_BATCH_NORM = "torch.aten._native_batch_norm_legit_no_training"


@dataclass(frozen=True)
class NormalizeTorch(Pass):
    """Rewrite the spellings above; everything else stays."""

    name: ClassVar[str] = "normalize-torch"

    def run(self, module: ir.Operation) -> None:
        for function in module.regions[0].blocks[0].operations:
            for region in function.operation.regions:
                for block in region.blocks:
                    for operation in list(block.operations):
                        _normalize(operation.operation)


def _normalize(operation: ir.Operation) -> None:
    with ir.InsertionPoint(operation), operation.location:
        if operation.name in _DIM_OPERAND:
            _count_from_the_front(operation, _DIM_OPERAND[operation.name])
        elif operation.name == _ATTENTION:
            _give_rank(operation)
        elif operation.name in _DTYPE_OPERAND:
            _sum_wide(operation, _DTYPE_OPERAND[operation.name])
        elif operation.name == "torch.aten.sub.Scalar":
            _add_the_negative(operation)
        elif operation.name == "torch.operator":
            if operation.attributes["name"].value == _BATCH_NORM:
                _batch_norm(operation)
        else:
            rewrite_exactly(operation)


def _count_from_the_front(operation: ir.Operation, at: int) -> None:
    dim, sizes = constant(operation.operands[at]), shape(operation.operands[0])
    if isinstance(dim, int) and dim < 0 and sizes:
        operation.operands[at] = number(dim + len(sizes))


def _sum_wide(operation: ir.Operation, at: int) -> None:
    result, summed = operation.results[0], dtype(operation.operands[0])
    if summed in _HALF and dtype(result) in _HALF:
        widened = "f32"
    elif summed == "ui8" and dtype(result) == "si64":
        widened = "si64"  # torch-mlir would extend the sign
    else:
        return
    operands = list(operation.operands)
    operands[0], operands[at] = convert(operands[0], widened), number(None)
    wide = create(operation.name, operands, with_dtype(result, widened))
    result.replace_all_uses_with(convert(wide, dtype(result)))
    operation.erase()


def _add_the_negative(operation: ir.Operation) -> None:
    value, by, alpha = operation.operands
    subtracted, factor = constant(by), constant(alpha)
    if dtype(value) not in _NARROW_INTEGERS or not isinstance(subtracted, int):
        return
    if isinstance(factor, int):
        operands = [value, number(-subtracted * factor), number(1)]
        result = operation.results[0]
        result.replace_all_uses_with(create("torch.aten.add.Scalar", operands, result.type))
        operation.erase()


def _give_rank(attention: ir.Operation) -> None:
    query = shape(attention.operands[0])
    if query is None:
        return
    rank = max(len(query), 3)
    for at in range(4):
        value = attention.operands[at]
        if is_tensor(value):
            attention.operands[at] = _with_leading_ones(value, rank)
    if len(query) == rank:
        return
    result = attention.results[0]
    batched = create(_ATTENTION, list(attention.operands), with_shape(result, [1, *_sizes(result)]))
    squeezed = create("torch.aten.squeeze.dim", [batched, number(0)], result.type)
    result.replace_all_uses_with(squeezed)
    attention.erase()


def _sizes(value: ir.Value) -> list[int]:
    sizes = shape(value)
    assert sizes is not None
    return sizes


def _with_leading_ones(value: ir.Value, rank: int) -> ir.Value:
    sizes = shape(value)
    while sizes is not None and len(sizes) < rank:
        sizes = [1, *sizes]
        value = create("torch.aten.unsqueeze", [value, number(0)], with_shape(value, sizes))
    return value


def _batch_norm(operation: ir.Operation) -> None:
    """The inference form has three results; lowering knows the form with one."""
    if any(list(result.uses) for result in list(operation.results)[1:]):
        return
    value, weight, bias, mean, variance, momentum, eps = operation.operands
    training, cudnn = number(False), number(False)
    operands = [value, weight, bias, mean, variance, training, momentum, eps, cudnn]
    result = operation.results[0]
    result.replace_all_uses_with(create("torch.aten.batch_norm", operands, result.type))
    operation.erase()
