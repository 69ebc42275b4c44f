"""The compiler of a plug-in's target as a program, to run like IREE's."""

import sys

from lemurc.targets.base import Target
from lemurc.targets.compiler_process import Tool
from lemurc.targets.iree_process import iree_compile
from lemurc.targets.registry import package_of


def compiler_of(target: Target) -> Tool:
    """What makes code for `target`: its own compiler, else IREE's."""
    own = target.compiler
    if own is None:
        return iree_compile()
    package = package_of(target.name) or own.module
    return Tool(
        name=f"the compiler of {package}",
        # -P: a file that lies where the user stands is no module of the plug-in's
        command=(sys.executable, "-P", "-m", own.module),
        version=f"{own.module} {own.version}",
        spelling=("python", "-m", own.module),
        time_limit=own.time_limit,
    )
