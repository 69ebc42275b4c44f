"""What a kernel would do with an index outside its table, or a divisor of 0: never.

    Gather(table, ids)        ids an input         the session looks at it before the call
    Gather(table, f(x))       anything else        clamped, and a flag read after the call
    Div(a : int, b)           likewise, with 0; the least integer by -1 wraps around

Indices that are constants are looked at here. ONNX counts negative indices from the end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from lemurc.errors import UnsupportedModelError
from lemurc.frontend.onnx.edits import Edits, attributes
from lemurc.frontend.onnx.graph import ConcreteGraph
from lemurc.frontend.onnx.value_ranges import ValueRanges, origin
from lemurc.manifest import InputRange

FLAGS = "lemur.checks"
_FIRST_OPSET = 13
"""Comparisons and maxima of every integer, with broadcasting."""
_BY_COMPONENT = ("GatherND", "ScatterND")
_ALONG_AXIS = ("Gather", "GatherElements", "ScatterElements", "Scatter")
_DIVISIONS = ("Div", "Mod")


@dataclass(frozen=True)
class Guarded:
    """`ranges` and `messages` as in manifest.Function; with messages the graph's last
    result is one boolean for each."""

    graph: ConcreteGraph
    ranges: tuple[InputRange, ...]
    messages: tuple[str, ...]


def guard(graph: ConcreteGraph, inputs: int, opset: int) -> Guarded:
    """Guard every lookup and integer division; the first `inputs` are the caller's."""
    edits = Edits(graph.proto, graph.weights)
    found = _Guards(edits, ValueRanges(edits), [v.name for v in edits.graph.input[:inputs]], opset)
    nodes = []
    for node in edits.graph.node:
        edits.place = node.name
        if node.op_type in _ALONG_AXIS or node.op_type in _BY_COMPONENT:
            found.lookup(node)
        elif node.op_type in _DIVISIONS and edits.dtype(node.output[0]).kind in "iu":
            found.division(node)
        nodes += [*edits.taken(), node]
    if found.flags:
        last = "Identity" if len(found.flags) == 1 else "Concat"
        axis: dict[str, Any] = {"axis": 0} if last == "Concat" else {}
        nodes.append(helper.make_node(last, found.flags, [FLAGS], FLAGS, **axis))
        kind = helper.make_tensor_value_info(FLAGS, onnx.TensorProto.BOOL, [len(found.flags)])
        edits.graph.output.append(kind)
    del edits.graph.node[:]
    edits.graph.node.extend(nodes)
    return Guarded(graph, tuple(found.ranges.values()), tuple(found.messages))


@dataclass
class _Guards:
    edits: Edits
    values: ValueRanges
    inputs: list[str]
    opset: int

    def __post_init__(self) -> None:
        self.flags: list[str] = []
        self.messages: list[str] = []
        self.ranges: dict[tuple[int, int | None, int | None, bool], InputRange] = {}

    def lookup(self, node: onnx.NodeProto) -> None:
        table, indices = node.input[0], node.input[1]
        axes = list(_axes(node, self.edits))
        sizes = [self.edits.shape(table)[axis] for axis in axes]
        known = [size for size in sizes if size is not None]
        reason = f"index into dimension {axes[0]} of size {sizes[0] or 'dynamic'}"
        if axes == [0] and known:
            reason = f"index into a table of size {sizes[0]}"
        if len(known) == len(sizes):
            low, high = self.values.of(indices)
            if low is not None and high is not None and -min(known) <= low <= high < min(known):
                return
            if self.edits.value(indices) is not None:
                self._refuse_outside(node, indices, known)
                return
            if len(set(known)) == 1 and self._promised(node, indices, known[0], reason):
                return
            limit = self.edits.constant(np.asarray(known if len(known) > 1 else known[0]), indices)
        else:
            limit = self._sizes(table, axes, indices)
        node.input[1] = self._clamped(node, indices, limit, reason)

    def _refuse_outside(self, node: onnx.NodeProto, indices: str, sizes: list[int]) -> None:
        value, bounds = self.edits.value(indices), np.asarray(sizes)
        if value is not None and bool(np.any((value < -bounds) | (value >= bounds))):
            raise UnsupportedModelError(
                f"an index of the model lies outside its table of size {sizes}",
                code="onnx-index",
                where=f"{node.name} ({node.op_type})",
                hint="the model is wrong: export it again",
            )

    def _promised(self, node: onnx.NodeProto, indices: str, size: int, reason: str) -> bool:
        source = origin(indices, self.edits)
        if source not in self.inputs:
            return False
        self._add(node, source, -size, size - 1, reason, nonzero=False)
        return True

    def _add(
        self,
        node: onnx.NodeProto,
        source: str,
        low: int | None,
        high: int | None,
        reason: str,
        *,
        nonzero: bool,
    ) -> None:
        position = self.inputs.index(source)
        made = InputRange(position, low, high, f"{reason}, at {node.name}", nonzero)
        self.ranges.setdefault((position, low, high, nonzero), made)

    def _sizes(self, table: str, axes: list[int], like: str) -> str:
        """The sizes of `table` at `axes` when it is called."""
        sizes = self.edits.add("Shape", [table], np.int64, (len(self.edits.shape(table)),))
        wanted = np.asarray(axes if len(axes) > 1 else axes[0])
        at = self.edits.constant(wanted, dtype=np.int64)
        taken = self.edits.add("Gather", [sizes, at], np.int64, wanted.shape, axis=0)
        return self.edits.cast_to(taken, self.edits.dtype(like))

    def _clamped(self, node: onnx.NodeProto, indices: str, limit: str, reason: str) -> str:
        self._require_opset(node)
        dtype, shape = self.edits.dtype(indices), self.edits.shape(indices)
        one = self.edits.constant(np.asarray(1), indices)
        least = self.edits.add("Neg", [limit], dtype, self.edits.shape(limit))
        last = self.edits.add("Sub", [limit, one], dtype, self.edits.shape(limit))
        below = self.edits.add("Less", [indices, least], np.bool_, shape)
        above = self.edits.add("Greater", [indices, last], np.bool_, shape)
        outside = self.edits.add("Or", [below, above], np.bool_, shape)
        self._flag(outside, node, f"{reason}: a value is out of range")
        raised = self.edits.add("Max", [indices, least], dtype, shape)
        return self.edits.add("Min", [raised, last], dtype, shape)

    def _flag(self, wrong: str, node: onnx.NodeProto, message: str) -> None:
        if not self.edits.depends(wrong, self.inputs):
            return  # always the same: wrong in the call that compilation verifies, or never
        numbers = self.edits.add("Cast", [wrong], np.int32, self.edits.shape(wrong), to=6)
        length = self.edits.constant(np.asarray([-1]), dtype=np.int64)
        row = self.edits.add("Reshape", [numbers, length], np.int32, (None,))
        most = self.edits.add("ReduceMax", [row], np.int32, (1,), keepdims=1)
        # over no numbers the maximum is the least integer
        zero = self.edits.constant(np.asarray(0), dtype=np.int32)
        self.flags.append(self.edits.add("Greater", [most, zero], np.bool_, (1,)))
        self.messages.append(f"{message}, at {node.name}")

    def division(self, node: onnx.NodeProto) -> None:
        dividend, divisor = node.input
        dtype, shape = self.edits.dtype(divisor), self.edits.shape(divisor)
        low, high = self.values.of(divisor)
        wrong = []
        if not ((low is not None and low > 0) or (high is not None and high < 0)):
            source = origin(divisor, self.edits)
            zero = self.edits.constant(np.asarray(0), divisor)
            value = self.edits.value(divisor)
            if value is None or not value.all():
                wrong.append(self.edits.add("Equal", [divisor, zero], np.bool_, shape))
                if source in self.inputs:
                    reason = "integer division by zero"
                    self._add(node, source, None, None, reason, nonzero=True)
                else:
                    self._flag(wrong[0], node, "integer division by zero")
        if dtype.kind == "i" and not (low is not None and low >= 0):
            full = self.edits.shape(node.output[0])
            minus = self.edits.constant(np.asarray(-1), divisor)
            least = self.edits.constant(np.asarray(np.iinfo(dtype).min), divisor)
            is_minus = self.edits.add("Equal", [divisor, minus], np.bool_, shape)
            is_least = self.edits.add(
                "Equal", [dividend, least], np.bool_, self.edits.shape(dividend)
            )
            wrong.append(self.edits.add("And", [is_minus, is_least], np.bool_, full))
            shape = full
        if not wrong:
            return
        self._require_opset(node)
        either = wrong[0]
        if len(wrong) > 1:
            either = self.edits.add("Or", wrong, np.bool_, shape)
        one = self.edits.constant(np.asarray(1), divisor)
        node.input[1] = self.edits.add("Where", [either, one, divisor], dtype, shape)

    def _require_opset(self, node: onnx.NodeProto) -> None:
        if self.opset < _FIRST_OPSET:
            raise UnsupportedModelError(
                f"computed indices and integer divisions need opset {_FIRST_OPSET} or later; "
                f"the model is of opset {self.opset}",
                code="onnx-opset",
                where=f"{node.name} ({node.op_type})",
                hint="onnx.version_converter.convert_version makes a newer one of it",
            )


def _axes(node: onnx.NodeProto, edits: Edits) -> Iterator[int]:
    """The dimensions of the table that the indices count, one for each component."""
    given = attributes(node)
    rank = len(edits.shape(node.input[0]))
    if node.op_type in _BY_COMPONENT:
        batches, components = given.get("batch_dims", 0), edits.shape(node.input[1])[-1]
        if components is None:
            raise UnsupportedModelError(
                "the number of components of an index is dynamic",
                code="onnx-index",
                where=f"{node.name} ({node.op_type})",
            )
        yield from range(batches, batches + components)
    else:
        yield given.get("axis", 0) % rank
