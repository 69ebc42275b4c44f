"""IREE's compiler as a program.

The console script `iree-compile` is a Python wrapper whose child survives it, so the
binary inside the wheel is run directly.
"""

import functools
import sys
from pathlib import Path

from lemurc.targets.compiler_process import Tool


@functools.cache
def iree_compile() -> Tool:
    from importlib.metadata import version

    return Tool(
        name="iree-compile",
        command=(str(_path()),),
        version=version("iree-base-compiler"),
        spelling=("iree-compile",),
    )


def _path() -> Path:
    """The native compiler; IREE keeps its linker beside it."""
    import iree.compiler

    name = "iree-compile.exe" if sys.platform == "win32" else "iree-compile"
    return Path(iree.compiler.__file__).parent / "_mlir_libs" / name
