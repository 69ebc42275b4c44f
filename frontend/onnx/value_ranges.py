"""How small and how large the integers of an ONNX tensor can be."""

import numpy as np
import onnx

from lemurc.frontend.onnx.edits import Edits, attributes

Range = tuple[int | None, int | None]

UNKNOWN: Range = (None, None)
_SAME_ELEMENTS = frozenset(
    "Expand Flatten Identity Reshape Slice Squeeze Tile Transpose Unsqueeze".split()
)
"""Operators whose results hold entries of their first input and nothing else."""
_DEPTH = 40


def origin(name: str, edits: Edits) -> str:
    """The tensor that `name` holds the numbers of, reshaped and widened only."""
    while (node := edits.makers.get(name)) is not None:
        source = node.input[0] if node.input else ""
        same = node.op_type in _SAME_ELEMENTS - {"Slice"}
        if not (same or (node.op_type == "Cast" and _widens(source, name, edits))):
            break
        name = source
    return name


class ValueRanges:
    """Bounds that hold for every call; None where there is none."""

    def __init__(self, edits: Edits) -> None:
        self._edits = edits
        self._known: dict[str, Range] = {}

    def of(self, name: str, depth: int = 0) -> Range:
        if name not in self._known:
            self._known[name] = UNKNOWN if depth > _DEPTH else self._computed(name, depth + 1)
        return self._known[name]

    def _computed(self, name: str, depth: int) -> Range:
        value = self._edits.value(name)
        if value is not None:
            if value.dtype.kind not in "iu" or not value.size:
                return UNKNOWN
            return int(value.min()), int(value.max())
        node = self._edits.makers.get(name)
        if node is None or self._edits.dtype(name).kind not in "iu":
            return UNKNOWN
        inputs, kind = [item for item in node.input if item], node.op_type
        if kind in _SAME_ELEMENTS or (kind == "Cast" and _widens(inputs[0], name, self._edits)):
            return self.of(inputs[0], depth)
        if kind in ("Gather", "GatherElements", "GatherND"):
            return self.of(inputs[0], depth)
        if kind in ("Concat", "Where"):
            return _union([self.of(item, depth) for item in inputs[kind == "Where" :]])
        if kind in ("ArgMax", "ArgMin"):
            return self._below_size(node, default=0)
        if kind == "TopK" and name == node.output[1]:
            return self._below_size(node, default=-1)
        if kind in ("Add", "Sub"):
            return self._sum(inputs, kind, depth)
        if kind == "Clip":
            return self._clipped(list(node.input), depth)
        return UNKNOWN

    def _below_size(self, node: onnx.NodeProto, default: int) -> Range:
        sizes = self._edits.shape(node.input[0])
        size = sizes[attributes(node).get("axis", default)] if sizes else 1
        return (0, None) if size is None else (0, max(size - 1, 0))

    def _sum(self, inputs: list[str], kind: str, depth: int) -> Range:
        (low, high), (least, most) = (self.of(item, depth) for item in inputs)
        if low is None or high is None or least is None or most is None:
            return UNKNOWN
        if kind == "Sub":
            least, most = -most, -least
        low, high = low + least, high + most
        limits = np.iinfo(self._edits.dtype(inputs[0]))
        return (low, high) if limits.min <= low and high <= limits.max else UNKNOWN

    def _clipped(self, inputs: list[str], depth: int) -> Range:
        bounds: list[int | None] = [None, None]
        for at in (1, 2):
            if at < len(inputs) and inputs[at]:
                bounds[at - 1] = self.of(inputs[at], depth)[at - 1]
        return bounds[0], bounds[1]


def _widens(source: str, target: str, edits: Edits) -> bool:
    """Whether a cast keeps every integer."""
    before, after = edits.dtype(source), edits.dtype(target)
    return before.kind in "iu" and after.kind in "iu" and np.can_cast(before, after)


def _union(ranges: list[Range]) -> Range:
    lows, highs = [low for low, _ in ranges], [high for _, high in ranges]
    low = None if None in lows else min(item for item in lows if item is not None)
    return low, None if None in highs else max(item for item in highs if item is not None)
