"""One matrix product where every batch meets the same matrix.

    %b = broadcast %w : tensor<KxN> to tensor<BxKxN>
    %y = linalg.batch_matmul(%x, %b)            (or a generic with more batch dimensions)

    ->  %c = tensor.collapse_shape %x : tensor<BxMxK> into tensor<(B*M)xK>
        %p = linalg.matmul(%c, %w)
        %y = tensor.expand_shape %p : tensor<(B*M)xN> into tensor<BxMxN>

torch-mlir lowers a linear layer on more than two dimensions to the first form, which
keeps a copy of the weight for each batch, and which IREE 3.13 miscompiles with packed
operands (`--iree-opt-data-tiling`) when M is dynamic.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.passes.base import Pass
from lemurc.passes.tensor_operations import dim_size
from lemurc.passes.walking import operations

_DYNAMIC = ir.ShapedType.get_dynamic_size()


@dataclass(frozen=True)
class CollapseBatchMatmul(Pass):
    name: ClassVar[str] = "collapse-batch-matmul"
    optional: ClassVar[bool] = True

    def run(self, module: ir.Operation) -> None:
        for operation in operations(module, _is_batch_matmul):
            matrix = _broadcast_matrix(operation.operands[1])
            if matrix is not None:
                with ir.InsertionPoint(operation), operation.location:
                    _collapse(operation, matrix)


def _is_batch_matmul(operation: ir.Operation) -> bool:
    if operation.name not in ("linalg.batch_matmul", "linalg.generic"):
        return False
    if len(operation.operands) != 3 or len(operation.results) != 1:
        return False
    left, right, out = _maps(operation)
    if not (left and right and out and len(left) == len(right) == len(out) >= 3):
        return False
    (*batch, m, k), n = left, right[-1]
    body = [op.operation.name for op in operation.regions[0].blocks[0].operations]
    return (
        len({*batch, m, k, n}) == len(batch) + 3
        and right == [*batch, k, n]
        and out == [*batch, m, n]
        and "linalg.index" not in body
    )


def _maps(operation: ir.Operation) -> list[list[int]]:
    """Loops that index the dimensions of each operand; [] where more than loops do."""
    found = []
    for attribute in operation.attributes["indexing_maps"]:
        dims = list(ir.AffineMapAttr(attribute).value.results)
        plain = all(isinstance(dim, ir.AffineDimExpr) for dim in dims)
        found.append([dim.position for dim in dims] if plain else [])
    return found


def _broadcast_matrix(value: ir.Value) -> ir.Value | None:
    """The matrix that `value` repeats along all leading dimensions."""
    if isinstance(value.owner, ir.Block):
        return None
    operation = value.owner.operation
    if operation.name != "linalg.generic" or len(operation.operands) != 2:
        return None
    body = operation.regions[0].blocks[0]
    (first, *_) = body.operations
    yields_input = first.operation.name == "linalg.yield" and first.operands[0] == body.arguments[0]
    loops = list(range(ir.RankedTensorType(value.type).rank))
    if not yields_input or _maps(operation) != [loops[-2:], loops]:
        return None
    return operation.operands[0]


def _collapse(operation: ir.Operation, matrix: ir.Value) -> None:
    lhs, _, init = operation.operands
    result = operation.results[0]
    rank = ir.RankedTensorType(lhs.type).rank
    groups = _groups(rank)
    rows, out = _collapsed(lhs, groups), _collapsed(init, groups)
    attributes: dict[str, ir.Attribute] = {
        "operandSegmentSizes": operation.attributes["operandSegmentSizes"]
    }
    name = "linalg.matmul"
    if operation.name == "linalg.generic":
        name = "linalg.generic"
        dims = {"m": ir.AffineExpr.get_dim(0), "n": ir.AffineExpr.get_dim(1)}
        dims["k"] = ir.AffineExpr.get_dim(2)
        maps = [ir.AffineMap.get(3, 0, [dims[d] for d in pair]) for pair in ("mk", "kn", "mn")]
        attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps])
        kinds = ("parallel", "parallel", "reduction")
        attributes["iterator_types"] = ir.Attribute.parse(
            f"[{', '.join(f'#linalg.iterator_type<{kind}>' for kind in kinds)}]"
        )
    product = ir.Operation.create(
        name, results=[out.type], operands=[rows, matrix, out], attributes=attributes, regions=1
    )
    operation.regions[0].blocks[0].append_to(product.regions[0])
    result.replace_all_uses_with(_expanded(product.results[0], result.type, init, groups))
    operation.erase()


def _groups(rank: int) -> ir.ArrayAttr:
    i64 = ir.IntegerType.get_signless(64)
    together = [ir.IntegerAttr.get(i64, dim) for dim in range(rank - 1)]
    return ir.ArrayAttr.get(
        [ir.ArrayAttr.get(together), ir.ArrayAttr.get([ir.IntegerAttr.get(i64, rank - 1)])]
    )


def _collapsed(value: ir.Value, groups: ir.ArrayAttr) -> ir.Value:
    kind = ir.RankedTensorType(value.type)
    *leading, last = kind.shape
    rows = _DYNAMIC if _DYNAMIC in leading else math.prod(leading)
    return ir.Operation.create(
        "tensor.collapse_shape",
        results=[ir.RankedTensorType.get([rows, last], kind.element_type)],
        operands=[value],
        attributes={"reassociation": groups},
    ).results[0]


def _expanded(value: ir.Value, kind: ir.Type, like: ir.Value, groups: ir.ArrayAttr) -> ir.Value:
    shape = list(ir.RankedTensorType(kind).shape)
    sizes = [dim_size(like, dim) for dim, size in enumerate(shape) if size == _DYNAMIC]
    return ir.Operation.create(
        "tensor.expand_shape",
        results=[kind],
        operands=[value, *sizes],
        attributes={
            "reassociation": groups,
            "static_output_shape": ir.DenseI64ArrayAttr.get(shape),
        },
    ).results[0]
