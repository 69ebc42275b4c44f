# ruff: noqa: F821 (lit defines `config`)
"""Tests of `lemurc opt` and the passes: `lit lit_tests` or `make lit`."""

import importlib.util
import os
import shlex
import shutil
import sys
from pathlib import Path

import lit.formats


def has_kernels() -> bool:
    """Whether CMake's bitcode is part of this installation."""
    from lemurc.targets.cpu.library import bitcode

    return bitcode("x86-64-v3", "linear") is not None


config.name = "lemurc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(os.path.dirname(config.test_source_root), "build", "lit")

python = f"{shlex.quote(sys.executable)} -P"
filecheck = shutil.which("filecheck", path=str(Path(sys.executable).parent)) or "filecheck"
config.substitutions.append((r"\blemurc opt\b", f"{python} -m lemurc.tools.opt"))
config.substitutions.append((r"\bfilecheck\b", shlex.quote(filecheck)))

for variable in ("PYTHONPATH", "HOME", "TMPDIR"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]

for package in ("torch", "torch_mlir", "ortools", "iree.compiler"):
    if importlib.util.find_spec(package.partition(".")[0]) is not None:
        config.available_features.add(package)
if has_kernels():
    config.available_features.add("cpu-kernels")
if not {"torch_mlir"} <= config.available_features:
    config.unsupported = True
