"""Python numbers: those among the results are computed as tensors and handed out as numbers.

return y, x.shape[0] * 2   ->   return y, scalar_tensor(x.shape[0] * 2)
sym_float(x.shape[0])      ->   x.shape[0] / 1
"""

import operator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import TensorArgument

from lemurc.frontend.graph_edits import Edit, output_node
from lemurc.frontend.signature import NUMBERS


def return_numbers_as_tensors(program: ExportedProgram) -> None:
    output = output_node(program)
    nodes = {node.name: node for node in program.graph.nodes}
    results: Any = list(output.args[0])  # type: ignore[arg-type]
    for spec in program.graph_signature.output_specs:
        kind: Any = type(spec.arg)
        if kind not in NUMBERS:
            continue
        number = nodes[spec.arg.name]
        tensor = Edit(output).call(
            torch.ops.aten.scalar_tensor.default, number, dtype=getattr(torch, NUMBERS[kind])
        )
        results[results.index(number)] = tensor
        spec.arg = TensorArgument(name=tensor.name)
    output.args = (tuple(results),)


def spell_floats(program: ExportedProgram) -> None:
    """Floats of dynamic sizes, for which torch-mlir has no word."""
    for node in program.graph.nodes:
        if node.target is torch.sym_float:
            node.target, node.args = operator.truediv, (node.args[0], 1)
