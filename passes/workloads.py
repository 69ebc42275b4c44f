"""What the cost model is told of one operation: its kind, element type, work and shape.

    call @fused_3(...)   ->   Workload("add+gelu+linear", "f32", flops, bytes, (128, 3072, 768))

Kinds are names, not meanings: times measured of one kind predict others of it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import prod

from torch_mlir import ir

from lemurc.errors import InternalError
from lemurc.manifest import Workload
from lemurc.passes import graph as graphs
from lemurc.passes.counts import iteration_domain
from lemurc.passes.sizes import Sizes

Functions = Mapping[str, ir.Operation]
_NUMBERS = ("flops", "bytes_read", "bytes_written", "count")
_TRANSCENDENTAL = ("exp", "log", "tanh", "erf", "sin", "cos", "pow", "sqrt")


def workload(op: ir.Operation, sizes: Sizes, functions: Functions) -> Workload | None:
    """None for what costs nothing: views, and operations without results."""
    if op.name in graphs.VIEWS or len(op.results) == 0:
        return None
    cost = costs(op)
    return Workload(
        kind=kind(op, functions),
        dtype=_dtype(op),
        flops=cost["flops"],
        bytes_read=cost["bytes_read"],
        bytes_written=cost["bytes_written"],
        shape=contraction(op, sizes, functions),
    )


def together(work: Iterable[Workload | None]) -> list[Workload]:
    """Equal ones once, counted; None is nothing."""
    found = Counter(item for item in work if item is not None)
    return [replace(item, count=item.count * count) for item, count in found.items()]


def attribute(work: Iterable[Workload]) -> ir.ArrayAttr:
    """What `outline-stages` writes on a stage as `lemur.work`, and `read` reads."""
    return ir.ArrayAttr.get([_described(item) for item in work])


def read(stage: ir.Operation) -> tuple[Workload, ...]:
    """The work of an outlined stage."""
    return tuple(
        Workload(
            kind=item["kind"].value,
            dtype=item["dtype"].value,
            shape=tuple(item["shape"]),
            **{name: item[name].value for name in _NUMBERS},
        )
        for item in stage.attributes["lemur.work"]
    )


def _described(work: Workload) -> ir.DictAttr:
    i64 = ir.IntegerType.get_signless(64)
    numbers = {name: ir.IntegerAttr.get(i64, getattr(work, name)) for name in _NUMBERS}
    words = {name: ir.StringAttr.get(getattr(work, name)) for name in ("kind", "dtype")}
    return ir.DictAttr.get(numbers | words | {"shape": ir.DenseI64ArrayAttr.get(work.shape)})


def costs(op: ir.Operation) -> dict[str, int]:
    """What `annotate-cost` wrote on `op`."""
    if "lemur.cost" not in op.attributes:
        raise InternalError(
            f"'{op.name}' has no 'lemur.cost'", hint="run annotate-cost before this pass"
        )
    return {named.name: named.attr.value for named in op.attributes["lemur.cost"]}


def kind(op: ir.Operation, functions: Functions) -> str:
    """A composite's kind; those of a fused one, joined; else what sort of loop it is."""
    body = functions.get(graphs.callee(op))
    if body is None:
        return _kind_of_loop(op)
    name = str(body.attributes["lemur.composite"].value)
    if name != "fused":
        return name
    inside = (inner.operation for inner in body.regions[0].blocks[0].operations)
    found = Counter(
        kind(inner, functions)
        for inner in inside
        if inner.name != "func.return" and not graphs.is_free(inner)
    )
    return "+".join(word if n == 1 else f"{word}*{n}" for word, n in sorted(found.items()))


def contraction(op: ir.Operation, sizes: Sizes, functions: Functions) -> tuple[int, ...]:
    """(rows, columns, depth) of the largest product of matrices in `op`; () without one.

    Batches of products count as rows, the pixels and filters of a convolution as rows and
    depth, queries, keys and features of attention as the three.
    """
    body = functions.get(graphs.callee(op))
    if body is not None:
        shapes = [
            sizes.shape(value) if isinstance(value.type, ir.RankedTensorType) else []
            for value in op.operands
        ]
        inner = Sizes(body, shapes)
        found = [
            contraction(each.operation, inner, functions)
            for each in body.regions[0].blocks[0].operations
        ]
        return max(found, key=prod, default=())
    if op.name == "tm_tensor.attention":
        query, key = sizes.shape(op.operands[0]), sizes.shape(op.operands[1])
        return prod(query[:-1]), key[-2], query[-1]
    if not op.name.startswith("linalg.") or len(op.regions) == 0 or len(op.operands) != 3:
        return ()
    return _of_loop(op, sizes)


def _of_loop(op: ir.Operation, sizes: Sizes) -> tuple[int, ...]:
    from torch_mlir.dialects import linalg

    maps = [attribute.value for attribute in linalg.get_indexing_maps(op)]
    reads = [
        {
            position
            for position in range(affine.n_dims)
            if any(_uses(expression, position) for expression in affine.results)
        }
        for affine in maps
    ]
    domain = iteration_domain(op, sizes)
    summed = set(range(len(domain))) - reads[2]
    if not summed & reads[0] & reads[1]:
        return ()
    columns = (reads[1] & reads[2]) - reads[0]
    rows = set(range(len(domain))) - summed - columns
    return tuple(prod(domain[at] for at in dims) for dims in (rows, columns, summed))


def _uses(expression: ir.AffineExpr, position: int) -> bool:
    if isinstance(expression, ir.AffineDimExpr):
        return bool(expression.position == position)
    if isinstance(expression, ir.AffineBinaryExpr):
        return _uses(expression.lhs, position) or _uses(expression.rhs, position)
    return False


def _kind_of_loop(op: ir.Operation) -> str:
    if op.name != "linalg.generic":
        return str(op.name.rpartition(".")[2])
    names = [inner.operation.name for inner in op.regions[0].blocks[0].operations]
    words = [name.rpartition(".")[2] for name in names if name.startswith("math.")]
    hard = [word for word in words if word.startswith(_TRANSCENDENTAL)]
    reduces = any("reduction" in str(kind) for kind in op.attributes["iterator_types"])
    if not reduces and len(names) == 1:
        return "copy"
    return ("reduce" if reduces else "elementwise") + (f"[{hard[0]}]" if hard else "")


def _dtype(op: ir.Operation) -> str:
    """The type an operation computes in: that of its first floating-point operand or result."""
    types = [
        str(value.type.element_type)
        for value in (*op.operands, *op.results)
        if isinstance(value.type, ir.ShapedType)
    ]
    floats = [name for name in types if "f" in name]
    return (floats or types or ["f32"])[0]
