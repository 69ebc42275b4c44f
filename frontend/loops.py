"""torch.while_loop in the form that torch-mlir's importer understands.

    while_loop(c, f, carried, captured)   ->   while_loop(c', f', (*carried, *captured))

f' returns what it captures too: the importer hands the body its initial values only.
c' is c through a reduction, which nothing folds: torch-mlir takes a loop whose condition
is known to hold before the first step for one that never ends.
"""

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

_aten = torch.ops.aten


def prepare_loops(program: ExportedProgram) -> None:
    """Change the loops of a decomposed program in place, those within loops too."""
    for module in list(program.graph_module.modules()):
        if not isinstance(module, GraphModule):
            continue
        for node in module.graph.nodes:
            if node.target is torch.ops.higher_order.while_loop:
                _keep_condition(getattr(module, node.args[0].target))
                if node.args[3]:
                    _carry_captures(module, node)


def _keep_condition(condition: GraphModule) -> None:
    output = next(item for item in condition.graph.nodes if item.op == "output")
    holds = next(iter(output.all_input_nodes), None)
    if holds is None or holds.target is _aten.any.dim:
        return
    with condition.graph.inserting_before(output):
        row = condition.graph.call_function(_aten.unsqueeze.default, (holds, 0))
        row.meta["val"] = holds.meta["val"].unsqueeze(0)
        kept = condition.graph.call_function(_aten.any.dim, (row, 0))
        kept.meta["val"] = holds.meta["val"]
    output.replace_input_with(holds, kept)
    condition.recompile()


def _carry_captures(module: GraphModule, node: Node) -> None:
    condition, body, carried, captured = node.args
    inner = getattr(module, body.target)  # type: ignore[union-attr,arg-type]
    output = next(item for item in inner.graph.nodes if item.op == "output")
    placeholders = [item for item in inner.graph.nodes if item.op == "placeholder"]
    output.args = ((*output.args[0], *placeholders[len(carried) :]),)  # type: ignore[arg-type]
    inner.recompile()
    node.args = (condition, body, (*carried, *captured), ())  # type: ignore[misc]
    node.meta["val"] = (*node.meta["val"], *(item.meta["val"] for item in captured))  # type: ignore[union-attr]
