"""Take weights in the layouts other code of the same artifact packs them in.

    @run(%w {lemur.param = "w"})  ->  @run(%p {lemur.param = "w@panels16"}), call @unpack_0(%p)

An architecture without kernels wants the weight as it is; undoing the packing lets the
artifact hold one copy. IREE hoists these operations: they run once, at load. Runs on one
stage after `select-kernels` and before `lower-to-iree`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from lemurc.targets.composite import weight_in_layout, weight_name
from lemurc.targets.layouts import MARK, PANEL, ROWS
from lemurc.targets.linalg_text import call, declare
from lemurc.targets.lower_to_iree import entry_point

NAME = "unpack"


def packed_names(parameters: Sequence[str]) -> tuple[str, ...]:
    """Those of a stage's weights that it reads in a layout and no other way."""
    return tuple(name for name in parameters if name.rpartition(MARK)[0] not in {"", *parameters})


@dataclass(frozen=True)
class _Packing:
    """Groups of `size` rows side by side; `columns`: of the columns, for a weight [K, N]."""

    size: int
    columns: bool = False

    def matrix(self, shape: Sequence[int]) -> tuple[int, int]:
        """Rows that are grouped and what each holds."""
        if self.columns:
            return shape[1], shape[0]
        return shape[0], prod(shape[1:])

    def packed_shape(self, shape: Sequence[int]) -> list[int]:
        count, depth = self.matrix(shape)
        return [-(-count // self.size), depth, self.size]

    def function(self, name: str, weight: Any, packed: Any) -> str:
        """A function from the packed weight to the weight."""
        element, shape = weight.element_type, list(weight.shape)
        count, depth = self.matrix(shape)
        groups = packed.shape[0]
        if self.columns:
            order, joined = [1, 0, 2], "[[0], [1, 2]]"
            turned, wide = [depth, groups, self.size], [depth, groups * self.size]
            flat = [depth, count]
        else:
            order, joined = [0, 2, 1], "[[0, 1], [2]]"
            turned, wide = [groups, self.size, depth], [groups * self.size, depth]
            flat = [count, depth]
        turned_type, wide_type, flat_type = (_type(s, element) for s in (turned, wide, flat))
        lines = [
            f"func.func private @{name}(%p: {packed}) -> {weight} {{",
            f"%e = tensor.empty() : {turned_type}",
            f"%t = linalg.transpose ins(%p : {packed}) outs(%e : {turned_type})"
            f" permutation = {order}",
            f"%c = tensor.collapse_shape %t {joined} : {turned_type} into {wide_type}",
            f"%s = tensor.extract_slice %c[0, 0] [{flat[0]}, {flat[1]}] [1, 1]"
            f" : {wide_type} to {flat_type}",
        ]
        result = "%s"
        if flat != shape:
            axes = [[0], list(range(1, len(shape)))]
            lines.append(
                f"%r = tensor.expand_shape %s {axes} output_shape {shape}"
                f" : {flat_type} into {weight}"
            )
            result = "%r"
        return "\n".join([*lines, f"return {result} : {weight}", "}"])


_PACKINGS = {
    "panels16": _Packing(PANEL),
    "panels16_transposed": _Packing(PANEL, columns=True),
    "rows6": _Packing(ROWS),
}
"""How each layout of targets/layouts.py is made."""


def _type(shape: Sequence[int], element: Any) -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{element}>"


@dataclass(frozen=True)
class UnpackWeights:
    """The pass `unpack-weights`; `names` are "weight@layout"."""

    names: tuple[str, ...]

    def run(self, module: Any) -> None:
        from iree.compiler import ir

        layouts = {weight: layout for weight, _, layout in (n.rpartition(MARK) for n in self.names)}
        run = entry_point(module)
        entry = run.regions[0].blocks[0]
        count = 0
        for weight in list(entry.arguments):
            layout = layouts.get(weight_name(weight) or "")
            if layout is None or not list(weight.uses):
                continue
            packing = _PACKINGS[layout]
            packed = weight_in_layout(weight, layout, packing.packed_shape(list(weight.type.shape)))
            declare(module, packing.function(f"{NAME}_{count}", weight.type, packed.type))
            with ir.InsertionPoint.at_block_begin(entry):
                raw = call(f"{NAME}_{count}", [packed], weight.type, run.location)
            weight.replace_all_uses_with(raw)
            count += 1
