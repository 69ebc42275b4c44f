"""What of an exported program torch-mlir does not import, all of it at once."""

from collections import defaultdict

import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch_mlir.extras.fx_importer import GraphNodeImporter

from lemurc.errors import UnsupportedModelError
from lemurc.frontend.node_locations import python_line

_WRAPPERS = {
    "auto_functionalized": "changes its arguments",
    "auto_functionalized_v2": "changes its arguments",
    "with_effects": "has effects besides its results",
}
"""How torch.export hides operators of the user's that are no functions."""


def refuse_higher_order_operators(program: ExportedProgram) -> None:
    """Control flow, and operators that are no functions of their arguments."""
    control_flow: dict[str, list[str]] = defaultdict(list)
    impure: dict[str, list[str]] = defaultdict(list)
    for module in program.graph_module.modules():
        graph = getattr(module, "graph", None)
        for node in graph.nodes if graph is not None else ():
            if not isinstance(node.target, torch._ops.HigherOrderOperator):
                continue
            name = node.target.__name__
            line = python_line(node) or "unknown line"
            if name in _WRAPPERS:
                impure[f"{_wrapped(node)} {_WRAPPERS[name]}"].append(line)
            elif not hasattr(GraphNodeImporter, f"_import_hop_{name}"):
                control_flow[name].append(line)
    if impure:
        raise UnsupportedModelError(
            "the model uses operators of a library that can neither be compiled nor left to "
            f"PyTorch, as they are no functions:\n  {_listed(impure)}",
            code="unsupported-ops",
            hint="define them so that they return what they compute: "
            "torch.library.custom_op(..., mutates_args=())",
        )
    if control_flow:
        raise UnsupportedModelError(
            f"the model uses control flow that cannot be compiled:\n  {_listed(control_flow)}",
            code="unsupported-ops",
            hint="write loops over a fixed number of steps in Python, and branches with "
            "torch.where",
        )


def _wrapped(node: Node) -> str:
    """The operator inside; the effects' token comes before it."""
    operator = next(item for item in node.args if isinstance(item, torch._ops.OpOverload))
    return str(operator._schema.name)


def _listed(found: dict[str, list[str]]) -> str:
    return "\n  ".join(
        f"{name} x{len(lines)} at {', '.join(dict.fromkeys(lines))}"
        for name, lines in sorted(found.items())
    )
