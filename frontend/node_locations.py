"""Locations of imported operations: module path and the user's Python lines."""

import re
from pathlib import Path
from typing import Any

import torch
from torch_mlir import ir
from torch_mlir.extras.fx_importer import ContextCache

import lemurc

MODULE = "lemurc.module"
"""In the metadata `custom` of a node: its module, where it was traced outside of any."""

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in ')
_NOT_THE_USERS = tuple(f"{Path(str(package.__file__)).parent}/" for package in (torch, lemurc))


class LocatedContextCache(ContextCache):
    """The importer's cache, with locations as dialects/locations.py describes them."""

    def get_node_location(self, node: torch.fx.Node) -> ir.Location | None:
        trace = node.meta.get("stack_trace")
        if trace is None:
            return None
        frames = [
            ir.Location.file(file, int(line), col=0, context=self._c)
            for file, line in reversed(_FRAME.findall(trace))
            if not file.startswith(_NOT_THE_USERS)
        ]
        if not frames:
            child = ir.Location.unknown(context=self._c)
        elif len(frames) == 1:
            child = frames[0]
        else:
            child = ir.Location.callsite(frames[0], frames[1:], context=self._c)
        return ir.Location.name(module_path(node), childLoc=child, context=self._c)


def module_path(node: torch.fx.Node) -> str:
    """The path of the innermost nn.Module that `node`, or the forward of it, was traced in."""
    if path := (node.meta.get("custom") or {}).get(MODULE):
        return str(path)
    stack: dict[str, tuple[str, Any]] = (
        node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    )
    if not stack:
        return ""
    path = list(stack.values())[-1][0]
    # a module called twice is traced as "path" and "path@1"
    return path.split("@")[0]


def python_line(node: torch.fx.Node) -> str:
    """`model.py:12`, the innermost frame outside PyTorch and lemurc; empty where unknown."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    for file, line in reversed(frames):
        if not file.startswith(_NOT_THE_USERS):
            return f"{Path(file).name}:{line}"
    return ""
