"""A range of an operation's result, along one dimension, computed by itself.

    %y = call @linear_0(%x, %w, %b) : tensor<4x96xf32>
      columns 32 of %y  ->  call @linear_0_1x32(%x, 32 rows of %w, 32 of %b) : tensor<4x32xf32>

Which dimension of each operand such a range needs is read off what operations mean: the indexing
maps of linalg, the groups of a reshape, the bodies of composites. Where a dimension is summed
over, compared along, or counted, there is no answer. Sizes along it are static; the range itself
does not matter, so that equal parts are equal functions.
"""

from collections.abc import Callable, Iterable, Mapping

from torch_mlir import ir

from lemurc.passes import graph as graphs
from lemurc.passes.clone_nodes import create_function

Needs = dict[ir.Value, int | None]
"""Of each value that is read, the dimension along which the same range will do; None: all."""
Lookup = Callable[[ir.Value, int | None], ir.Value]


class Slicer:
    """Slices operations of one module; functions of parts are made at its end, once each."""

    def __init__(self, module: ir.Operation) -> None:
        self._module = module
        self.functions = graphs.bodies(module)
        self._known: dict[tuple[str, int], Needs | None] = {}

    def needs(self, op: ir.Operation, dim: int) -> Needs | None:
        """What a range along `dim` of the one result of `op` is computed from; None where it
        takes more than ranges, or all, of what `op` reads."""
        if len(op.results) != 1 or not _is_static(op.results[0].type, dim):
            return None
        body = self.functions.get(graphs.callee(op))
        if body is not None:
            inner = self._needs_of(body, dim)
            arguments = body.regions[0].blocks[0].arguments
            return inner and _merged(
                (value, inner.get(argument))
                for value, argument in zip(op.operands, arguments, strict=True)
            )
        if op.name.startswith("linalg."):
            return _needs_of_linalg(op, dim)
        rule = _RULES.get(op.name)
        return None if rule is None else rule(op, dim)

    def sliced(self, op: ir.Operation, dim: int, size: int, lookup: Lookup) -> ir.Operation:
        """The operation, where we stand, that computes `size` elements along `dim`; `lookup`
        gives the values it reads, or the range along a dimension of them."""
        needs = self.needs(op, dim)
        assert needs is not None
        kind = _resized(op.results[0].type, dim, size)
        values = {value: lookup(value, at) for value, at in needs.items()}
        clone = op.clone(ir.InsertionPoint.current).operation
        graphs.remap(clone, values)
        clone.results[0].set_type(kind)
        if graphs.callee(op) in self.functions:
            name = self._function(graphs.callee(op), dim, size)
            clone.attributes["callee"] = ir.FlatSymbolRefAttr.get(name)
        if op.name == "tensor.expand_shape":
            clone.attributes["static_output_shape"] = ir.DenseI64ArrayAttr.get(kind.shape)
        if op.name == "arith.constant":
            splat = op.attributes["value"].get_splat_value()
            clone.attributes["value"] = ir.DenseElementsAttr.get_splat(kind, splat)
        return clone

    def _needs_of(self, body: ir.Operation, dim: int) -> Needs | None:
        """The arguments of a composite that a range of its one result is computed from."""
        key = (graphs.symbol(body), dim)
        if key not in self._known:
            self._known[key] = self._through(body, dim)
        return self._known[key]

    def _through(self, body: ir.Operation, dim: int) -> Needs | None:
        terminator = list(body.regions[0].blocks[0].operations)[-1].operation
        found: list[tuple[ir.Value, int | None]] = []
        seen: set[tuple[ir.Value, int | None]] = set()
        pending: list[tuple[ir.Value, int | None]] = [(terminator.operands[0], dim)]
        while pending:
            value, at = pending.pop()
            if (value, at) in seen:
                continue
            seen.add((value, at))
            if isinstance(value.owner, ir.Block):
                found.append((value, at))
                continue
            op = value.owner.operation
            read = dict.fromkeys(graphs.values_read(op)) if at is None else self.needs(op, at)
            if read is None:
                return None
            pending += read.items()
        return _merged(found)

    def _function(self, name: str, dim: int, size: int) -> str:
        made = f"{name}_{dim}x{size}"
        if made in self.functions:
            return made
        body = self.functions[name]
        block = body.regions[0].blocks[0]
        terminator = list(block.operations)[-1].operation
        needs = self._needs_of(body, dim) or {}
        types = [
            value.type if at is None else _resized(value.type, at, size)
            for value in block.arguments
            for at in [needs.get(value)]
        ]
        result = _resized(terminator.operands[0].type, dim, size)
        kind = ir.FunctionType.get(types, [result])
        with body.location:
            function = create_function(made, kind, self._module.regions[0].blocks[0])
        for attribute in body.attributes:
            if attribute not in ("sym_name", "function_type"):
                function.attributes[attribute] = body.attributes[attribute]
        inside = function.regions[0].blocks[0]
        known = {
            (old, needs.get(old)): new
            for old, new in zip(block.arguments, inside.arguments, strict=True)
        }
        with ir.InsertionPoint(inside), body.location:
            value = self._copied(terminator.operands[0], dim, size, known)
            ir.Operation.create("func.return", operands=[value])
        self.functions[made] = function
        return made

    def _copied(
        self,
        value: ir.Value,
        dim: int | None,
        size: int,
        known: dict[tuple[ir.Value, int | None], ir.Value],
    ) -> ir.Value:
        """`value`, or its range, where we stand, with all that it is computed from."""

        def lookup(read: ir.Value, at: int | None) -> ir.Value:
            return self._copied(read, at, size, known)

        if (value, dim) not in known:
            op = value.owner.operation
            if dim is None:
                values = {read: lookup(read, None) for read in graphs.values_read(op)}
                clone = op.clone(ir.InsertionPoint.current).operation
                graphs.remap(clone, values)
            else:
                clone = self.sliced(op, dim, size, lookup)
            for old, new in zip(op.results, clone.results, strict=True):
                known[old, dim] = new
        return known[value, dim]


def _merged(pairs: Iterable[tuple[ir.Value, int | None]]) -> Needs | None:
    """One answer for each value; None where two differ."""
    found: Needs = {}
    for value, at in pairs:
        if found.setdefault(value, at) != at:
            return None
    return found


def _is_static(kind: ir.Type, dim: int) -> bool:
    return isinstance(kind, ir.RankedTensorType) and not kind.is_dynamic_dim(dim)


def _resized(kind: ir.Type, dim: int, size: int) -> ir.RankedTensorType:
    shape = list(kind.shape)
    shape[dim] = size
    return ir.RankedTensorType.get(shape, kind.element_type, kind.encoding)


def _needs_of_linalg(op: ir.Operation, dim: int) -> Needs | None:
    from torch_mlir.dialects import linalg

    maps = [attribute.value for attribute in linalg.get_indexing_maps(op) or ()]
    if len(maps) != len(op.operands):
        return None
    loop = maps[-1].results[dim]
    if not isinstance(loop, ir.AffineDimExpr):
        return None
    pairs: list[tuple[ir.Value, int | None]] = []
    for affine, value in zip(maps, op.operands, strict=True):
        along = [at for at, expression in enumerate(affine.results) if _reads(expression, loop)]
        if len(along) > 1 or any(affine.results[at] != loop for at in along):
            return None
        pairs.append((value, along[0] if along else None))
    captured = _captured(op, loop.position)
    return None if captured is None else _merged([*pairs, *captured])


def _reads(expression: ir.AffineExpr, loop: ir.AffineDimExpr) -> bool:
    if isinstance(expression, ir.AffineBinaryExpr):
        return _reads(expression.lhs, loop) or _reads(expression.rhs, loop)
    return bool(expression == loop)


def _captured(op: ir.Operation, loop: int) -> list[tuple[ir.Value, int | None]] | None:
    """What the region reads of tensors outside: a table's column is that of the result, where
    the loop's number is an index into it. None where that number means anything else."""
    outside = [value for value in graphs.values_read(op) if value not in list(op.operands)]
    counted: dict[ir.Value, int] = {}
    fits = True

    def visit(inner: ir.Operation) -> ir.WalkResult:
        nonlocal fits
        if inner.name == "linalg.index" and inner.attributes["dim"].value == loop:
            for use in inner.results[0].uses:
                reader = use.owner.operation
                table = reader.operands[0]
                at = use.operand_number - 1
                extracts = reader.name == "tensor.extract" and at >= 0 and table in outside
                fits = fits and extracts and counted.setdefault(table, at) == at
        return ir.WalkResult.ADVANCE

    op.walk(visit)
    if not fits:
        return None
    for table, at in counted.items():
        for use in table.uses:
            reader = use.owner.operation
            if _is_inside(reader, op) and not _indexed_by(reader, at, loop):
                return None
    return [(value, counted.get(value)) for value in outside]


def _is_inside(inner: ir.Operation, op: ir.Operation) -> bool:
    parent = inner
    while parent is not None and parent.name != "builtin.module":
        if parent == op:
            return True
        parent = parent.parent and parent.parent.operation
    return False


def _indexed_by(reader: ir.Operation, at: int, loop: int) -> bool:
    """Whether `reader` takes an element whose index number `at` is that of the loop."""
    if reader.name != "tensor.extract":
        return False
    index = reader.operands[at + 1].owner
    if isinstance(index, ir.Block) or index.operation.name != "linalg.index":
        return False
    return bool(index.operation.attributes["dim"].value == loop)


def _groups(op: ir.Operation) -> list[list[int]]:
    return [[axis.value for axis in group] for group in op.attributes["reassociation"]]


def _lone(kind: ir.RankedTensorType, group: list[int], dim: int) -> bool:
    """Whether a group of dimensions is `dim` and ones."""
    return all(axis == dim or kind.shape[axis] == 1 for axis in group)


def _expand_shape(op: ir.Operation, dim: int) -> Needs | None:
    for number, group in enumerate(_groups(op)):
        if dim in group and _lone(op.results[0].type, group, dim):
            return dict.fromkeys(op.operands) | {op.operands[0]: number}
    return None


def _collapse_shape(op: ir.Operation, dim: int) -> Needs | None:
    kind, group = op.operands[0].type, _groups(op)[dim]
    size = op.results[0].type.shape[dim]
    for axis in group:
        if kind.shape[axis] == size and _lone(kind, group, axis):
            return {op.operands[0]: axis}
    return None


def _cast(op: ir.Operation, dim: int) -> Needs | None:
    return {op.operands[0]: dim} if _is_static(op.operands[0].type, dim) else None


def _constant(op: ir.Operation, dim: int) -> Needs | None:
    value = op.attributes["value"]
    return {} if isinstance(value, ir.DenseElementsAttr) and value.is_splat else None


_RULES: Mapping[str, Callable[[ir.Operation, int], Needs | None]] = {
    "arith.constant": _constant,
    "tensor.cast": _cast,
    "tensor.collapse_shape": _collapse_shape,
    "tensor.empty": lambda op, dim: dict.fromkeys(op.operands),
    "tensor.expand_shape": _expand_shape,
}
