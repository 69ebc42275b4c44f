"""A range of an operation's results, each along one dimension, computed by itself.

    %y = call @linear_0(%x, %w, %b) : tensor<4x96xf32>
      columns 32 of %y  ->  call @linear_0_1x32(%x, 32 rows of %w, 32 of %b) : tensor<4x32xf32>
      rows 2 of %y      ->  call @linear_0_0x2(2 rows of %x, %w, %b) : tensor<2x96xf32>

Which dimension of each operand such a range needs is read off what operations mean: the indexing
maps of linalg, the groups of a reshape, the bodies of composites. Where a dimension is summed
over, compared along, or counted, there is no answer. Sizes along it are static; where the range
begins does not matter, so that equal parts are equal functions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from torch_mlir import ir

from lemurc.passes import graph as graphs
from lemurc.passes.clone_nodes import create_function


class Along(NamedTuple):
    """A range along dimension `dim`, which is `outer` times what is counted times `unit`: of rows
    [batch * tokens] `unit` is the tokens, of rows [tokens * batch] `outer` is."""

    dim: int
    unit: int = 1
    outer: int = 1


Part = Along | None
"""The range of a value; None: all of it."""
Needs = dict[ir.Value, Part]
Lookup = Callable[[ir.Value, Part], ir.Value]


@dataclass(frozen=True)
class Step:
    """An operation that is computed, and which range of each result."""

    op: ir.Operation
    parts: tuple[Part, ...]


class Slicer:
    """Slices operations of one module; functions of parts are made at its end, once each."""

    def __init__(self, module: ir.Operation) -> None:
        self._module = module
        self.functions = graphs.bodies(module)
        self._known: dict[tuple[str, tuple[Part, ...]], tuple[list[Step], Needs] | None] = {}

    def needs(self, op: ir.Operation, parts: tuple[Part, ...]) -> Needs | None:
        """What ranges of the results of `op` are computed from; None where that takes more than
        ranges, or all, of what `op` reads."""
        if not any(parts):
            return dict.fromkeys(graphs.values_read(op))
        if None in parts or not all(map(_divides, (r.type for r in op.results), parts)):
            return None
        body = self.functions.get(graphs.callee(op))
        if body is not None:
            found = self._inside(body, parts)
            arguments = body.regions[0].blocks[0].arguments
            return found and _merged(
                (value, found[1].get(argument))
                for value, argument in zip(op.operands, arguments, strict=True)
            )
        if op.name.startswith("linalg."):
            return _needs_of_linalg(op, parts)
        rule = _RULES.get(op.name)
        return rule(op, parts[0]) if rule and len(parts) == 1 and parts[0] else None

    def sliced(
        self, op: ir.Operation, parts: tuple[Part, ...], count: int, lookup: Lookup
    ) -> ir.Operation:
        """The operation, where we stand, that computes `count` units of each result; `lookup`
        gives the values it reads, or the ranges of them."""
        needs = self.needs(op, parts)
        assert needs is not None
        values = {value: lookup(value, part) for value, part in needs.items()}
        clone = op.clone(ir.InsertionPoint.current).operation
        graphs.remap(clone, values)
        for result, part in zip(clone.results, parts, strict=True):
            if part is not None:
                result.set_type(resized(result.type, part, count))
        if any(parts) and graphs.callee(op) in self.functions:
            name = self.function(graphs.callee(op), parts, count)
            clone.attributes["callee"] = ir.FlatSymbolRefAttr.get(name)
        if any(parts) and op.name in _STATED:
            _state_sizes(op, clone, parts)
        return clone

    def walk(
        self, function: ir.Operation, parts: Sequence[Part]
    ) -> tuple[list[Step], Needs] | ir.Operation:
        """What computes ranges of a function's results, in order, and from which of its
        arguments; or the operation that stands in the way."""
        operations = [op.operation for op in function.regions[0].blocks[0].operations]
        wanted: dict[ir.Value, dict[Part, None]] = {}
        for value, part in zip(operations[-1].operands, parts, strict=True):
            wanted.setdefault(value, {})[part] = None
        steps: list[Step] = []
        for op in reversed(operations[:-1]):
            asked = [list(wanted.get(result, {})) for result in op.results]
            if not any(asked):
                continue
            whole = _of_all_results(op, asked) if len(asked) > 1 else None
            if len(asked) > 1 and whole is None:
                return op
            for chosen in [(part,) for part in asked[0]] if whole is None else [whole]:
                read = self.needs(op, chosen)
                if read is None:
                    return op
                steps.append(Step(op, chosen))
                for value, part in read.items():
                    wanted.setdefault(value, {})[part] = None
        arguments = _merged(
            (argument, part)
            for argument in function.regions[0].blocks[0].arguments
            for part in wanted.get(argument, ())
        )
        return operations[-1] if arguments is None else (steps[::-1], arguments)

    def function(self, name: str, parts: tuple[Part, ...], count: int) -> str:
        """The function that computes `count` units of each result of `name`, by symbol."""
        along = "_".join(
            f"{part.dim}x{part.outer * count * part.unit}" if part else "all" for part in parts
        )
        made = f"{name}_{along}"
        if made not in self.functions:
            found = self._inside(self.functions[name], parts)
            assert found is not None
            self.functions[made] = self.build(self.functions[name], made, parts, count, *found)
        return made

    def build(
        self,
        body: ir.Operation,
        name: str,
        parts: Sequence[Part],
        count: int,
        steps: Sequence[Step],
        needs: Needs,
    ) -> ir.Operation:
        """A function at the end of the module from what `walk` found in `body`."""
        block = body.regions[0].blocks[0]
        terminator = list(block.operations)[-1].operation
        types = [resized(value.type, needs.get(value), count) for value in block.arguments]
        results = [
            resized(value.type, part, count)
            for value, part in zip(terminator.operands, parts, strict=True)
        ]
        with body.location:
            function = create_function(
                name, ir.FunctionType.get(types, results), self._module.regions[0].blocks[0]
            )
        for attribute in body.attributes:
            if attribute not in ("sym_name", "function_type"):
                function.attributes[attribute] = body.attributes[attribute]
        inside = function.regions[0].blocks[0]
        known: dict[tuple[ir.Value, Part], ir.Value] = {
            (old, needs.get(old)): new
            for old, new in zip(block.arguments, inside.arguments, strict=True)
        }
        with ir.InsertionPoint(inside), body.location:
            for step in steps:
                clone = self.sliced(step.op, step.parts, count, lambda *key: known[key])
                known.update(
                    zip(zip(step.op.results, step.parts, strict=True), clone.results, strict=True)
                )
            returned = [known[key] for key in zip(terminator.operands, parts, strict=True)]
            ir.Operation.create("func.return", operands=returned)
        return function

    def _inside(
        self, body: ir.Operation, parts: tuple[Part, ...]
    ) -> tuple[list[Step], Needs] | None:
        key = (graphs.symbol(body), parts)
        if key not in self._known:
            found = self.walk(body, parts)
            self._known[key] = found if isinstance(found, tuple) else None
        return self._known[key]


def resized(kind: ir.Type, part: Part, count: int) -> ir.Type:
    """The type of so many units of a value of type `kind`."""
    if part is None:
        return kind
    shape = list(kind.shape)
    shape[part.dim] = part.outer * count * part.unit
    return ir.RankedTensorType.get(shape, kind.element_type, kind.encoding)


def _merged(pairs: Iterable[tuple[ir.Value, Part]]) -> Needs | None:
    """One answer for each value; None where two differ."""
    found: Needs = {}
    for value, part in pairs:
        if found.setdefault(value, part) != part:
            return None
    return found


def _divides(kind: ir.Type, part: Part) -> bool:
    """Whether a value is so many units, known when it is compiled."""
    if not isinstance(kind, ir.RankedTensorType) or part is None or part.dim >= kind.rank:
        return False
    return (
        not kind.is_dynamic_dim(part.dim) and kind.shape[part.dim] % (part.outer * part.unit) == 0
    )


def _needs_of_linalg(op: ir.Operation, parts: tuple[Part, ...]) -> Needs | None:
    from torch_mlir.dialects import linalg

    maps = [attribute.value for attribute in linalg.get_indexing_maps(op) or ()]
    if len(maps) != len(op.operands):
        return None
    loops = {
        (affine.results[part.dim], part._replace(dim=0))
        for affine, part in zip(maps[-len(parts) :], parts, strict=True)
        if part is not None
    }
    loop, range_ = loops.pop()
    if loops or not isinstance(loop, ir.AffineDimExpr):
        return None
    pairs: list[tuple[ir.Value, Part]] = []
    for affine, value in zip(maps, op.operands, strict=True):
        along = [at for at, expression in enumerate(affine.results) if _reads(expression, loop)]
        if len(along) > 1 or any(affine.results[at] != loop for at in along):
            return None
        pairs.append((value, range_._replace(dim=along[0]) if along else None))
    captured = _captured(op, loop.position, range_)
    return None if captured is None else _merged([*pairs, *captured])


def _of_all_results(op: ir.Operation, asked: Sequence[Sequence[Part]]) -> tuple[Part, ...] | None:
    """The ranges of the results of one operation, those that nobody asked for too."""
    from torch_mlir.dialects import linalg

    if any(len(each) > 1 for each in asked):
        return None
    known = [each[0] if each else None for each in asked]
    if all(asked) or not any(known):
        return tuple(known)
    if op.name != "linalg.generic":
        return None
    maps = [attribute.value for attribute in linalg.get_indexing_maps(op)][-len(known) :]
    part = next(part for part in known if part is not None)
    loop = maps[known.index(part)].results[part.dim]
    for number, each in enumerate(asked):
        if not each:
            along = [at for at, item in enumerate(maps[number].results) if item == loop]
            if len(along) != 1:
                return None
            known[number] = part._replace(dim=along[0])
    return tuple(known)


def _reads(expression: ir.AffineExpr, loop: ir.AffineDimExpr) -> bool:
    if isinstance(expression, ir.AffineBinaryExpr):
        return _reads(expression.lhs, loop) or _reads(expression.rhs, loop)
    return bool(expression == loop)


def _captured(op: ir.Operation, loop: int, range_: Along) -> list[tuple[ir.Value, Part]] | None:
    """What the region reads of tensors outside: a table's column is that of the result, where
    the loop's number is an index into it. None where that number means anything else."""
    outside = [value for value in graphs.values_read(op) if value not in list(op.operands)]
    found: list[tuple[ir.Value, Part]] = []
    indices: list[ir.Operation] = []
    extracts: list[ir.Operation] = []

    def visit(inner: ir.Operation) -> ir.WalkResult:
        if inner.name == "linalg.index" and inner.attributes["dim"].value == loop:
            indices.append(inner)
        if inner.name == "tensor.extract":
            extracts.append(inner)
        return ir.WalkResult.ADVANCE

    op.walk(visit)
    numbers = [index.results[0] for index in indices]
    if any(use.owner.operation not in extracts for number in numbers for use in number.uses):
        return None
    for extract in extracts:
        table, *positions = extract.operands
        along = [at for at, position in enumerate(positions) if position in numbers]
        if len(along) > 1 or (along and table not in outside):
            return None
        if table in outside:
            found.append((table, range_._replace(dim=along[0]) if along else None))
    known = [table for table, _ in found]
    return [*found, *((value, None) for value in outside if value not in known)]


def _groups(op: ir.Operation) -> list[list[int]]:
    return [[axis.value for axis in group] for group in op.attributes["reassociation"]]


def _expand_shape(op: ir.Operation, part: Along) -> Needs | None:
    shape = op.results[0].type.shape
    for number, group in enumerate(_groups(op)):
        if part.dim in group:
            at = group.index(part.dim)
            outer, inner = [shape[a] for a in group[:at]], [shape[a] for a in group[at + 1 :]]
            if min([*outer, *inner], default=1) < 1:
                return None
            source = Along(number, part.unit * prod(inner), prod(outer) * part.outer)
            return dict.fromkeys(op.operands) | {op.operands[0]: source}
    return None


def _collapse_shape(op: ir.Operation, part: Along) -> Needs | None:
    shape, group = op.operands[0].type.shape, _groups(op)[part.dim]
    if min(shape[axis] for axis in group) < 1:
        return None
    count = op.results[0].type.shape[part.dim] // (part.outer * part.unit)
    for axis in group:
        outer = prod(shape[a] for a in group if a < axis)
        inner = prod(shape[a] for a in group if a > axis)
        if part.outer % outer == 0 and part.unit % inner == 0 and shape[axis] % count == 0:
            return {op.operands[0]: Along(axis, part.unit // inner, part.outer // outer)}
    return None


def _extract_slice(op: ir.Operation, part: Along) -> Needs | None:
    """All of a dimension is taken, and ranges of others."""
    axis = _axis_of_slice(op, op.operands[0].type, op.results[0].type, part.dim)
    if axis is None:
        return None
    return dict.fromkeys(op.operands) | {op.operands[0]: part._replace(dim=axis)}


def _insert_slice(op: ir.Operation, part: Along) -> Needs | None:
    inserted, whole = op.operands[:2]
    for dim in range(inserted.type.rank):
        if _axis_of_slice(op, whole.type, inserted.type, dim) == part.dim:
            there = {inserted: part._replace(dim=dim), whole: part}
            return _merged([*there.items(), *((value, None) for value in op.operands[2:])])
    return None


def _axis_of_slice(
    op: ir.Operation, whole: ir.RankedTensorType, taken: ir.RankedTensorType, dim: int
) -> int | None:
    """The dimension of `whole` that is all of dimension `dim` of a slice of it."""
    sizes = list(op.attributes["static_sizes"])
    kept = [axis for axis, size in enumerate(sizes) if size != 1]
    if len(sizes) == taken.rank:
        kept = list(range(taken.rank))
    elif len(kept) != taken.rank:
        return None  # which of the ones were dropped is a matter of convention
    axis = kept[dim]
    starts, strides = op.attributes["static_offsets"], op.attributes["static_strides"]
    is_all = (starts[axis], sizes[axis], strides[axis]) == (0, whole.shape[axis], 1)
    return axis if is_all else None


def _pad(op: ir.Operation, part: Along) -> Needs | None:
    if op.attributes["static_low"][part.dim] or op.attributes["static_high"][part.dim]:
        return None
    return dict.fromkeys(graphs.values_read(op)) | {op.operands[0]: part}


def _concat(op: ir.Operation, part: Along) -> Needs | None:
    return None if op.attributes["dim"].value == part.dim else dict.fromkeys(op.operands, part)


def _attention(op: ir.Operation, part: Along) -> Needs | None:
    """Products of matrices, one for each of the first dimension."""
    count = op.results[0].type.shape[0]
    batched = all(value.type.shape[0] == count for value in op.operands)
    return dict.fromkeys(op.operands, part) if part.dim == 0 and batched else None


def _constant(op: ir.Operation, part: Along) -> Needs | None:
    value = op.attributes["value"]
    return {} if isinstance(value, ir.DenseElementsAttr) and value.is_splat else None


_RULES: Mapping[str, Callable[[ir.Operation, Along], Needs | None]] = {
    "arith.constant": _constant,
    "tensor.cast": lambda op, part: (
        {op.operands[0]: part} if _divides(op.operands[0].type, part) else None
    ),
    "tensor.collapse_shape": _collapse_shape,
    "tensor.concat": _concat,
    "tensor.empty": lambda op, part: dict.fromkeys(op.operands),
    "tensor.expand_shape": _expand_shape,
    "tensor.extract_slice": _extract_slice,
    "tensor.insert_slice": _insert_slice,
    "tensor.pad": _pad,
    "tm_tensor.attention": _attention,
}

_STATED = {
    "arith.constant": "value",
    "tensor.expand_shape": "static_output_shape",
    "tensor.extract_slice": "static_sizes",
    "tensor.insert_slice": "static_sizes",
}
"""Operations that state sizes in an attribute too."""


def _state_sizes(op: ir.Operation, clone: ir.Operation, parts: tuple[Part, ...]) -> None:
    kind = clone.results[0].type
    name = _STATED[op.name]
    if name == "value":
        splat = op.attributes[name].get_splat_value()
        clone.attributes[name] = ir.DenseElementsAttr.get_splat(kind, splat)
        return
    sizes = list(op.attributes[name])
    for dim, (old, new) in enumerate(zip(op.results[0].type.shape, kind.shape, strict=True)):
        if old != new:
            axis = dim
            if op.name == "tensor.extract_slice":
                axis = _axis_of_slice(op, op.operands[0].type, op.results[0].type, dim) or 0
            sizes[axis] = new
    clone.attributes[name] = ir.DenseI64ArrayAttr.get(sizes)
