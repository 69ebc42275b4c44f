"""Canonicalise, share equal operations, and drop what nothing uses.

    transpose(transpose(x)), x + 0, two equal casts, a call whose result is unread,
    a weight nobody multiplies by        ->   gone

MLIR does the first part; calls of composites, composites themselves and weights are
ours to drop. Inputs and state stay, since callers pass them.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from lemurc.passes import graph as graphs
from lemurc.passes.base import Pass
from lemurc.passes.unused import (
    erase_unused_calls,
    erase_unused_composites,
    erase_unused_weights,
)


@dataclass(frozen=True)
class Simplify(Pass):
    name: ClassVar[str] = "simplify"

    def run(self, module: ir.Operation) -> None:
        upstream = PassManager.parse("builtin.module(func.func(canonicalize,cse))")
        upstream.run(module)
        composites = graphs.composites(module)
        for entry in graphs.entries(module):
            erase_unused_calls(entry, composites)
        upstream.run(module)
        erase_unused_composites(module)
        for entry in graphs.entries(module):
            erase_unused_weights(entry)
