"""Where an operation comes from: a module of the model and a line of the user's Python.

    loc("encoder.layer.0.attention"("/home/me/model.py":12:0))
    loc("encoder.layer.0.attention"(callsite("model.py":12:0 at "train.py":80:0)))

The name is the path of the innermost nn.Module; the child is the innermost Python frame
outside PyTorch itself, with its callers.
"""

from pathlib import PurePath
from typing import Any

from torch_mlir import ir


def module_path(location: ir.Location) -> str:
    """`encoder.layer.0.attention`; empty for the root module or where unknown."""
    found = _first(location, ir.NameLoc)
    return "" if found is None else str(found.name_str)


def python_line(location: ir.Location, *, full_path: bool = False) -> str:
    """`model.py:12`; empty where unknown."""
    found = _first(location, ir.FileLineColLoc)
    if found is None:
        return ""
    name = str(found.filename)
    return f"{name if full_path else PurePath(name).name}:{found.start_line}"


def _first(location: ir.Location, kind: type[ir.Location]) -> Any:
    """Depth first; of a call site the callee comes before its callers."""
    if isinstance(location, kind):
        return location
    children: list[ir.Location] = []
    if isinstance(location, ir.NameLoc):
        children = [location.child_loc]
    elif isinstance(location, ir.CallSiteLoc):
        children = [location.callee, location.caller]
    elif isinstance(location, ir.FusedLoc):
        children = list(location.locations)
    found = (_first(child, kind) for child in children)
    return next((location for location in found if location is not None), None)
