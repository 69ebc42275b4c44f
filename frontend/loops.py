"""torch.while_loop in the form that torch-mlir's importer understands.

    while_loop(c, f, carried, captured)   ->   while_loop(c, f', (*carried, *captured))

f' returns what it captures too: the importer hands the body its initial values only.
"""

import torch
from torch.export import ExportedProgram


def carry_captures(program: ExportedProgram) -> None:
    """Have the loops of a decomposed program pass along what they capture, in place."""
    for node in program.graph.nodes:
        if node.target is not torch.ops.higher_order.while_loop or not node.args[3]:
            continue
        condition, body, carried, captured = node.args
        inner = getattr(program.graph_module, body.target)
        output = next(item for item in inner.graph.nodes if item.op == "output")
        placeholders = [item for item in inner.graph.nodes if item.op == "placeholder"]
        output.args = ((*output.args[0], *placeholders[len(carried) :]),)
        inner.recompile()
        node.args = (condition, body, (*carried, *captured), ())
        node.meta["val"] = (*node.meta["val"], *(item.meta["val"] for item in captured))
