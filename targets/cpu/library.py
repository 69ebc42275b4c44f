"""The bitcode that CMakeLists.txt builds from kernels/*.c, if this installation has it.

A pure-Python installation has none: stages then compile without kernels, only slower.
"""

import functools
from importlib.resources import files

ISAS = {"x86-64-v3": ("x86_64_v3",), "x86-64-v4": ("x86_64_v4", "x86_64_v3")}
"""Architectures of the cpu target with kernels, and whose code serves them, the best first."""


@functools.cache
def bitcode(arch: str, kernel: str) -> bytes | None:
    """Bitcode of `kernel` for `arch`; None when there is none."""
    for isa in ISAS.get(arch, ()):
        path = files("lemurc.targets.cpu").joinpath("kernels", isa, f"{kernel}.bc")
        if path.is_file():
            return path.read_bytes()
    return None
