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


def plus(tensor: ir.Value, term: int) -> ir.Value:
    """`tensor`, of integers, with `term` added to each element."""
    kind = ir.RankedTensorType(tensor.type)
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(kind.rank))
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    generic = ir.Operation.create(
        "linalg.generic",
        results=[kind],
        operands=[tensor, tensor],
        attributes={
            "indexing_maps": ir.ArrayAttr.get([identity, identity]),
            "iterator_types": ir.ArrayAttr.get([parallel] * kind.rank),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1]),
        },
        regions=1,
    )
    element = kind.element_type
    block = ir.Block.create_at_start(generic.regions[0], [element, element])
    with ir.InsertionPoint(block):
        added = [block.arguments[0], integer(term, element)]
        result = ir.Operation.create("arith.addi", results=[element], operands=added)
        ir.Operation.create("linalg.yield", operands=[result.results[0]])
    return generic.results[0]
