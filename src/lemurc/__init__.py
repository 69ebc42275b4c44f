"""lemurc: compile a PyTorch model ahead of time for the devices you have.

artifact = lemurc.compile(model, (x,), targets="cpu,vulkan")
session = lemurc.load(artifact.path)          # needs no PyTorch
y = session(x)
"""

from typing import TYPE_CHECKING, Any

from lemurc.errors import LemurcError

if TYPE_CHECKING:
    from lemurc.compiler import compile
    from lemurc.runtime.session import load

__version__ = "0.1.0"
__all__ = ["LemurcError", "__version__", "compile", "load"]

_LAZY = {"compile": "lemurc.compiler", "load": "lemurc.runtime.session"}


def __getattr__(name: str) -> Any:
    """`compile` needs the compiler and `load` the runtime: import what is asked for."""
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'lemurc' has no attribute {name!r}")
