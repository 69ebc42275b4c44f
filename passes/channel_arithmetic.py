"""Build one `linalg.generic` that combines a tensor with vectors along one dimension."""

from collections.abc import Callable, Mapping

from torch_mlir import ir


class ScalarMath:
    """Arithmetic on scalars in f32, at the current insertion point."""

    def __init__(self) -> None:
        self.type = ir.F32Type.get()

    def constant(self, value: float) -> ir.Value:
        attributes = {"value": ir.FloatAttr.get(self.type, value)}
        return self._make("arith.constant", [], attributes)

    def add(self, left: ir.Value, right: ir.Value) -> ir.Value:
        return self._make("arith.addf", [left, right])

    def subtract(self, left: ir.Value, right: ir.Value) -> ir.Value:
        return self._make("arith.subf", [left, right])

    def multiply(self, left: ir.Value, right: ir.Value) -> ir.Value:
        return self._make("arith.mulf", [left, right])

    def negate(self, value: ir.Value) -> ir.Value:
        return self._make("arith.negf", [value])

    def rsqrt(self, value: ir.Value) -> ir.Value:
        """As 1 / sqrt: `math.rsqrt` is an approximation on some targets."""
        one = self.constant(1.0)
        return self._make("arith.divf", [one, self._make("math.sqrt", [value])])

    def widen(self, value: ir.Value) -> ir.Value:
        return value if value.type == self.type else self._make("arith.extf", [value])

    def narrow(self, value: ir.Value, kind: ir.Type) -> ir.Value:
        if kind == self.type:
            return value
        return ir.Operation.create("arith.truncf", results=[kind], operands=[value]).results[0]

    def _make(
        self,
        name: str,
        operands: list[ir.Value],
        attributes: Mapping[str, ir.Attribute] | None = None,
    ) -> ir.Value:
        made = ir.Operation.create(
            name, results=[self.type], operands=operands, attributes=dict(attributes or {})
        )
        return made.results[0]


def per_channel(
    tensor: ir.Value | None,
    kind: ir.RankedTensorType,
    vectors: Mapping[str, ir.Value],
    axis: int,
    combine: Callable[[ScalarMath, dict[str, ir.Value]], ir.Value],
) -> ir.Value:
    """`result[..., c, ...] = combine(tensor[..., c, ...] as "self", vectors[c] by name)`.

    `kind` is the result's type, and `tensor`'s when there is one. Sums are in f32.
    """
    if tensor is None:
        out = ir.Operation.create("tensor.empty", results=[kind]).results[0]
    else:
        out = tensor
    identity = ir.AffineMap.get_identity(kind.rank)
    channel = ir.AffineMap.get(kind.rank, 0, [ir.AffineDimExpr.get(axis)])
    maps = [channel] * len(vectors) + [identity]
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    generic = ir.Operation.create(
        "linalg.generic",
        results=[kind],
        operands=[*vectors.values(), out],
        attributes={
            "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(item) for item in maps]),
            "iterator_types": ir.ArrayAttr.get([parallel] * kind.rank),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(vectors), 1]),
        },
        regions=1,
    )
    elements = [value.type.element_type for value in vectors.values()]
    block = ir.Block.create_at_start(generic.regions[0], [*elements, kind.element_type])
    with ir.InsertionPoint(block):
        math = ScalarMath()
        named = {
            name: math.widen(argument)
            for name, argument in zip(vectors, block.arguments, strict=False)
        }
        if tensor is not None:
            named["self"] = math.widen(block.arguments[len(vectors)])
        result = math.narrow(combine(math, named), kind.element_type)
        ir.Operation.create("linalg.yield", operands=[result])
    return generic.results[0]
