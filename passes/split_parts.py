"""Replace one operation with a weight too large by parts of it and their concatenation.

    %y = call @linear_0(%x, %w)        %0 = call @linear_0_1x64(%x, "w[0..64]")
    %z = relu(%y)                 ->   %1 = relu(%0)
                                       %2 = call @linear_0_1x32(%x, "w[64..96]")
                                       %3 = relu(%2)
                                       %z = tensor.concat dim(1) %1, %3

Elementwise operations that alone read the result are split with it, so that no more is moved
than they leave. A part has the range of each weight that it needs as a weight of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from lemurc.passes import graph as graphs
from lemurc.passes.annotate_cost import names_attribute
from lemurc.passes.graph import Graph
from lemurc.passes.legality import Legality
from lemurc.passes.sizes import Sizes
from lemurc.passes.slicing import Along, Needs, Part, Slicer, resized
from lemurc.passes.unused import is_used, set_arguments
from lemurc.weight_slices import slice_name


@dataclass(frozen=True)
class Chain:
    """Operations that are split together, each result along its dimension, `size` long."""

    ops: tuple[ir.Operation, ...]
    dims: tuple[int, ...]
    size: int


def chain_from(
    op: ir.Operation, weight: ir.Value, slicer: Slicer, legality: Legality, sizes: Sizes
) -> Chain | None:
    """`op`, if a range of its result needs a range of `weight` only, and what follows it."""
    dim = next((dim for dim in _dims(op) if _needs(slicer, op, dim, weight) is not None), None)
    if dim is None:
        return None
    ops, dims = [op], [dim]
    while (reader := only_reader(ops[-1])) is not None:
        value = ops[-1].results[0]
        along = next(
            (d for d in _dims(reader) if _needs(slicer, reader, d, value) == Along(dim)), None
        )
        grows = along is None or sizes.bytes(reader.results[0]) > sizes.bytes(value)
        if grows or along is None or legality.rules(reader) != legality.rules(op):
            break
        ops.append(reader)
        dims.append(along)
        dim = along
    return Chain(tuple(ops), tuple(dims), op.results[0].type.shape[dims[0]])


def _dims(op: ir.Operation) -> range:
    one = len(op.results) == 1 and isinstance(op.results[0].type, ir.RankedTensorType)
    return range(op.results[0].type.rank) if one else range(0)


def _needs(slicer: Slicer, op: ir.Operation, dim: int, value: ir.Value) -> Part:
    return needs_along(slicer, op, dim).get(value)


def needs_along(slicer: Slicer, op: ir.Operation, dim: int) -> Needs:
    """What a range of the one result of `op` along `dim` reads; {} where that is no range of
    neighbours."""
    needs = slicer.needs(op, (Along(dim),)) or {}
    return needs if all(part is None or part.outer == 1 for part in needs.values()) else {}


def only_reader(op: ir.Operation) -> ir.Operation | None:
    """What reads the result of `op`, where that is one operation beside it."""
    readers = {use.owner.operation for use in op.results[0].uses}
    if len(readers) != 1:
        return None
    reader = readers.pop()
    beside = reader.parent is not None and reader.parent.operation == op.parent.operation
    return (
        reader if beside and reader.name != "func.return" and not graphs.is_free(reader) else None
    )


def split(graph: Graph, chain: Chain, sizes: Sequence[int], slicer: Slicer) -> ir.Operation:
    """Put parts in place of `chain`, in `sizes` that add up to its; the concatenation."""
    last = chain.ops[-1]
    names = [graph.reference(op.results[0]) for op in chain.ops]
    parts = []
    start = 0
    for size in sizes:
        stop = start + size
        known: dict[ir.Value, ir.Value] = {}
        for op, dim, name in zip(chain.ops, chain.dims, names, strict=True):
            range_ = _Range(graph, f"{name}[{start}..{stop}]", start, stop, known, slicer)
            with ir.InsertionPoint(last), op.location:
                part = slicer.sliced(op, (Along(dim),), size, range_.of)
            part.attributes["lemur.values"] = names_attribute([range_.name])
            known[op.results[0]] = part.results[0]
        parts.append(known[last.results[0]])
        start = stop
    with ir.InsertionPoint(last), last.location:
        whole = ir.Operation.create(
            "tensor.concat",
            results=[last.results[0].type],
            operands=parts,
            attributes={
                "dim": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), chain.dims[-1]),
                "lemur.values": last.attributes["lemur.values"],
            },
        )
    last.results[0].replace_all_uses_with(whole.results[0])
    for op in reversed(chain.ops):
        op.erase()
    return whole


@dataclass
class _Range:
    """What one operation of a part reads: `known` are values of the part already made."""

    graph: Graph
    name: str
    start: int
    stop: int
    known: dict[ir.Value, ir.Value]
    slicer: Slicer
    count: int = 0

    def of(self, value: ir.Value, part: Part) -> ir.Value:
        """`value`, or the range of it, where we stand."""
        if part is None:
            return value
        if value in self.known:
            return self.known[value]
        if self.graph.is_weight(value):
            return self._weight(value, part)
        producer = self.graph.producer.get(value)
        if producer is not None and self.graph.free[producer]:
            op = self.graph.nodes[producer]
            if self.slicer.needs(op, (part,)) is not None:
                count = self.stop - self.start
                return self.slicer.sliced(op, (part,), count, self.of).results[0]
        return self._extracted(value, part)

    def _weight(self, value: ir.Value, part: Along) -> ir.Value:
        whole = self.graph.arguments[value].removeprefix("param:")
        name = slice_name(whole, part.dim, self.start * part.unit, self.stop * part.unit)
        kind = resized(value.type, part, self.stop - self.start)
        return weight_argument(self.graph.function, name, kind)

    def _extracted(self, value: ir.Value, part: Along) -> ir.Value:
        rank = value.type.rank
        offsets, sizes = [0] * rank, list(value.type.shape)
        kind = resized(value.type, part, self.stop - self.start)
        offsets[part.dim], sizes[part.dim] = self.start * part.unit, kind.shape[part.dim]
        dynamic = [_size(value, axis) for axis in range(rank) if value.type.is_dynamic_dim(axis)]
        attributes = {
            "static_offsets": ir.DenseI64ArrayAttr.get(offsets),
            "static_sizes": ir.DenseI64ArrayAttr.get(sizes),
            "static_strides": ir.DenseI64ArrayAttr.get([1] * rank),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, len(dynamic), 0]),
            "lemur.values": names_attribute([f"{self.name}.{self.count}"]),
        }
        self.count += 1
        extracted = ir.Operation.create(
            "tensor.extract_slice",
            results=[kind],
            operands=[value, *dynamic],
            attributes=attributes,
        )
        return extracted.results[0]


def _size(value: ir.Value, axis: int) -> ir.Value:
    index = ir.IndexType.get()
    number = ir.Operation.create(
        "arith.constant", results=[index], attributes={"value": ir.IntegerAttr.get(index, axis)}
    )
    size = ir.Operation.create("tensor.dim", results=[index], operands=[value, number.results[0]])
    return size.results[0]


def weight_argument(entry: ir.Operation, name: str, kind: ir.Type) -> ir.Value:
    """The argument of `entry` that is the weight `name`, a new one where there is none."""
    block = entry.regions[0].blocks[0]
    attributes = list(entry.attributes["arg_attrs"])
    for argument, described in zip(block.arguments, attributes, strict=True):
        if "lemur.param" in described and described["lemur.param"].value == name:
            return argument
    argument = block.add_argument(kind, ir.Location.unknown())
    described = ir.DictAttr.get({"lemur.param": ir.StringAttr.get(name)})
    set_arguments(entry, [*attributes, described])
    return argument


def erase_unused_free(entry: ir.Operation) -> None:
    """Constants and the like that only what was split read."""
    for op in reversed(list(entry.regions[0].blocks[0].operations)[:-1]):
        if graphs.is_free(op.operation) and not is_used(op.operation):
            op.operation.erase()
