"""Making operations on tensors at the current insertion point."""

from torch_mlir import ir


def dim_size(value: ir.Value, dim: int) -> ir.Value:
    """`tensor.dim` of `value`, as an index."""
    index = ir.IndexType.get()
    return ir.Operation.create(
        "tensor.dim", results=[index], operands=[value, integer(dim, index)]
    ).results[0]


def integer(value: int, kind: ir.Type) -> ir.Value:
    """`arith.constant` of an integer or index type."""
    attributes = {"value": ir.IntegerAttr.get(kind, value)}
    return ir.Operation.create("arith.constant", results=[kind], attributes=attributes).results[0]
