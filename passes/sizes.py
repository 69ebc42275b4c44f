"""How large tensors are, in elements and bytes, when some dimensions are dynamic.

A dynamic dimension is counted at its largest. Arguments say theirs with
`lemur.dim_max = [-1, 512]` (-1: not known); every other size is computed from those
by following the index arithmetic of the program. What stays unknown counts as 1.
"""

from collections.abc import Callable, Iterable, Sequence
from math import prod

from torch_mlir import ir

BITS = {"i1": 8, "f8E4M3FN": 8, "f8E5M2": 8, "bf16": 16, "index": 64}


def element_bytes(element: ir.Type) -> int:
    text = str(element)
    if text in BITS:
        return BITS[text] // 8
    if text.startswith("complex<"):
        return 2 * element_bytes(ir.ComplexType(element).element_type)
    digits = "".join(char for char in text if char.isdigit())
    return max(1, int(digits or 8) // 8)


class Sizes:
    """Sizes of the values of one function; `assumed` counts the dimensions guessed as 1."""

    def __init__(self, function: ir.Operation, arguments: Sequence[Sequence[int]] = ()) -> None:
        block = function.regions[0].blocks[0]
        self.assumed = 0
        self._shapes: dict[ir.Value, list[int]] = {}
        self._index: dict[ir.Value, int | None] = {}
        maxima = list(arguments) or _declared_maxima(function, len(block.arguments))
        for value, largest in zip(block.arguments, maxima, strict=True):
            if isinstance(value.type, ir.RankedTensorType):
                self._shapes[value] = self._fill(value.type, list(largest))

    def shape(self, value: ir.Value) -> list[int]:
        if value not in self._shapes:
            kind = value.type
            known = [] if kind.has_static_shape else self._infer(value)
            self._shapes[value] = self._fill(kind, known)
        return self._shapes[value]

    def shapes(self, values: Iterable[ir.Value]) -> list[Sequence[int]]:
        """For the arguments of a function that is called with `values`."""
        return [
            self.shape(value) if isinstance(value.type, ir.RankedTensorType) else []
            for value in values
        ]

    def elements(self, value: ir.Value) -> int:
        return prod(self.shape(value)) if isinstance(value.type, ir.RankedTensorType) else 1

    def bytes(self, value: ir.Value) -> int:
        kind = value.type
        element = kind.element_type if isinstance(kind, ir.RankedTensorType) else kind
        return self.elements(value) * element_bytes(element)

    def _fill(self, kind: ir.RankedTensorType, known: Sequence[int]) -> list[int]:
        shape = []
        for axis in range(kind.rank):
            if not kind.is_dynamic_dim(axis):
                shape.append(kind.get_dim_size(axis))
            elif axis < len(known) and known[axis] > 0:
                shape.append(known[axis])
            else:
                self.assumed += 1
                shape.append(1)
        return shape

    def _infer(self, value: ir.Value) -> list[int]:
        """Sizes of a result, with 0 where they cannot be told."""
        owner = value.owner
        if isinstance(owner, ir.Block):
            return []
        op = owner.operation
        operands = list(op.operands)
        if op.name == "tensor.empty":
            return self._sized(value.type, operands)
        if op.name == "tensor.expand_shape":
            return self._expanded(value.type, operands[0], operands[1:])
        if op.name == "tensor.collapse_shape":
            return self._collapsed(value.type, self.shape(operands[0]), op)
        tensors = [x for x in operands if isinstance(x.type, ir.RankedTensorType)]
        if op.name.startswith(("linalg.", "tm_tensor.", "tensor.insert")) and tensors:
            same = [x for x in reversed(tensors) if x.type == value.type]
            return self.shape(same[0] if same else tensors[-1])
        # casts and calls: a result usually has the sizes of an operand of its rank
        for tensor in tensors:
            if tensor.type.rank == value.type.rank:
                return self.shape(tensor)
        return []

    def _sized(self, kind: ir.RankedTensorType, operands: list[ir.Value]) -> list[int]:
        """Dynamic sizes are given one by one; 0 is not known, and so is a static one."""
        sizes = iter(operands)
        return [
            (self._index_of(next(sizes)) or 0) if kind.is_dynamic_dim(axis) else 0
            for axis in range(kind.rank)
        ]

    def _expanded(
        self, kind: ir.RankedTensorType, source: ir.Value, operands: list[ir.Value]
    ) -> list[int]:
        """As given; a single size that cannot be told follows from the number of elements."""
        shape = self._sized(kind, operands)
        dynamic = [axis for axis in range(kind.rank) if kind.is_dynamic_dim(axis)]
        unknown = [axis for axis in dynamic if not shape[axis]]
        if len(unknown) == 1:
            known = [
                shape[axis] or kind.get_dim_size(axis)
                for axis in range(kind.rank)
                if axis != unknown[0]
            ]
            shape[unknown[0]] = max(1, self.elements(source) // max(1, prod(known)))
        return shape

    def _collapsed(
        self, kind: ir.RankedTensorType, source: list[int], op: ir.Operation
    ) -> list[int]:
        groups = op.attributes["reassociation"]
        return [prod(source[axis.value] for axis in group) for group in groups]

    def _index_of(self, value: ir.Value) -> int | None:
        if value not in self._index:
            self._index[value] = self._evaluate(value)
        return self._index[value]

    def _evaluate(self, value: ir.Value) -> int | None:
        owner = value.owner
        if isinstance(owner, ir.Block):
            return None
        op = owner.operation
        if op.name == "arith.constant":
            return int(op.attributes["value"].value)
        operands = list(op.operands)
        if op.name == "tensor.dim":
            axis = self._index_of(operands[1])
            return None if axis is None else self.shape(operands[0])[axis]
        if op.name in ("arith.index_cast", "arith.extsi", "arith.trunci"):
            return self._index_of(operands[0])
        rule = _ARITHMETIC.get(op.name)
        if rule is None:
            return None
        left, right = (self._index_of(operand) for operand in operands)
        return None if left is None or right is None else rule(left, right)


_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.divsi": lambda a, b: a // b if b else 0,
    "arith.floordivsi": lambda a, b: a // b if b else 0,
    "arith.divui": lambda a, b: a // b if b else 0,
    "arith.maxsi": max,
    "arith.minsi": min,
}


def _declared_maxima(function: ir.Operation, count: int) -> list[list[int]]:
    if "arg_attrs" not in function.attributes:
        return [[] for _ in range(count)]
    return [
        [size.value for size in attributes["lemur.dim_max"]]
        if "lemur.dim_max" in attributes
        else []
        for attributes in function.attributes["arg_attrs"]
    ]
