"""Make a program that computes one of several equal parts of its batch.

    func @main(%x: tensor<8x4xf32>, %w)        func @main(%x: tensor<2x4xf32>, %w)
      %y = call @linear_0(%x, %w)          ->    %y = call @linear_0_0x2(%x, %w)
                                               attributes {lemur.micro_batches = {count = 4, ...}}

The runtime calls it for each part, so that devices overlap within a call, and joins the results.
It is done only where each result's part follows from the same part of the inputs: nothing is
computed across the batch, and there is no state. `lemur.whole` says what stands in the way.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.errors import UsageError
from lemurc.passes import graph as graphs
from lemurc.passes import workloads
from lemurc.passes.annotate_cost import AnnotateCost
from lemurc.passes.attributes import attribute
from lemurc.passes.base import Pass
from lemurc.passes.legality import path_of
from lemurc.passes.slicing import Along, Needs, Slicer
from lemurc.passes.unused import erase_unused_composites

MICRO_BATCHES = "lemur.micro_batches"
"""On an entry: the count, and the dimension of the batch in each input and output; -1: none."""

WHOLE = "lemur.whole"
"""On an entry: why its batch is not cut."""


@dataclass(frozen=True)
class MicroBatch(Pass):
    """`count`: how many parts."""

    name: ClassVar[str] = "micro-batch"

    count: int = 1

    def run(self, module: ir.Operation) -> None:
        if self.count < 1:
            raise UsageError(
                f"{self.count} micro-batches are none",
                code="bad-option",
                where="--micro-batches",
                hint="give a number that divides the batch, or auto",
            )
        slicer = Slicer(module)
        for entry in graphs.entries(module) if self.count > 1 else ():
            if MICRO_BATCHES not in entry.attributes:
                why = _cut(entry, slicer, self.count)
                if why:
                    entry.attributes[WHOLE] = ir.StringAttr.get(why)
        erase_unused_composites(module)
        AnnotateCost().run(module)


def parts_of(entry: ir.Operation) -> int:
    """In how many parts calls of `entry` are cut."""
    if MICRO_BATCHES not in entry.attributes:
        return 1
    return int(entry.attributes[MICRO_BATCHES]["count"].value)


def _cut(entry: ir.Operation, slicer: Slicer, count: int) -> str:
    """Replace `entry` by a program for one of `count` parts; else why not."""
    described = list(entry.attributes["res_attrs"]) if "res_attrs" in entry.attributes else []
    terminator = list(entry.regions[0].blocks[0].operations)[-1].operation
    if any("lemur.output" not in each for each in described):
        return "it keeps state, changes its arguments or checks values"
    types = [value.type for value in terminator.operands]
    shapes = [list(kind.shape) for kind in types if isinstance(kind, ir.RankedTensorType)]
    if not shapes or not all(shapes) or len(shapes) < len(types):
        return "a result is no batch"
    if any(kind.is_dynamic_dim(0) for kind in types):
        return "the size of its batch is known at the call only"
    batch = min(shape[0] for shape in shapes)
    if batch < 1 or any(shape[0] % batch for shape in shapes):
        return "its results are batches of different sizes"
    parts = [Along(0, shape[0] // batch) for shape in shapes]
    found = slicer.walk(entry, parts)
    if not isinstance(found, tuple):
        return _why(found, slicer)
    steps, needs = found
    if why := _unlike(entry, needs, batch):
        return why
    if batch % count:
        return f"{count} parts of a batch of {batch} are not equal"
    made = slicer.build(entry, f"{graphs.symbol(entry)}_part", parts, batch // count, steps, needs)
    made.attributes[MICRO_BATCHES] = attribute(
        {"count": count, "inputs": _dims(entry, needs), "outputs": [part.dim for part in parts]}
    )
    made.move_before(entry)
    made.attributes["sym_name"] = entry.attributes["sym_name"]
    entry.erase()
    return ""


def _why(op: ir.Operation, slicer: Slicer) -> str:
    if op.name == "func.return":
        return "an input is needed whole"
    path = path_of(op, slicer.functions)
    kind = workloads.kind(op, slicer.functions)
    return f"{kind}{f' of {path}' if path else ''} is not known to keep the parts of a batch apart"


def _unlike(entry: ir.Operation, needs: Needs, batch: int) -> str:
    """What of the arguments is no batch of inputs; "" if they are one."""
    inputs = 0
    arguments = entry.regions[0].blocks[0].arguments
    for argument, described in zip(arguments, entry.attributes["arg_attrs"], strict=True):
        part = needs.get(argument)
        if part is None:
            continue
        if "lemur.input" not in described:
            return "a weight is as long as the batch"
        if part.outer != 1 or argument.type.shape[part.dim] != batch * part.unit:
            return "inputs and results are batches of different sizes"
        inputs += 1
    return "" if inputs else "no input is a batch"


def _dims(entry: ir.Operation, needs: Needs) -> list[int]:
    """By the number of the input."""
    found = {}
    arguments = entry.regions[0].blocks[0].arguments
    for argument, described in zip(arguments, entry.attributes["arg_attrs"], strict=True):
        if "lemur.input" in described:
            part = needs.get(argument)
            found[described["lemur.input"].value] = -1 if part is None else part.dim
    return [found[number] for number in sorted(found)]
