"""A machine that only runs artifacts has neither PyTorch nor the compiler."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import lemurc.runtime

FOLDER = Path(lemurc.runtime.__file__).parent
ALLOWED = ("numpy", "ml_dtypes", "iree.runtime", "lemurc.runtime", "lemurc.errors")
ALLOWED += ("lemurc.pytree", "lemurc.manifest", "lemurc.sizes", "lemurc.system_file")
ALLOWED += ("lemurc.plugins", "lemurc.units", "lemurc.user_modules")
ON_DEMAND = {"host_operators": ("torch",), "fit": ("rich",), "tensor_file": ("safetensors",)}
"""Inside functions: what only some artifacts, only a terminal, or only a checkpoint needs."""


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_what_the_runtime_imports(path):
    allowed = (*ALLOWED, *ON_DEMAND.get(path.stem, ()))
    for name in imported(path):
        known = any(name == prefix or name.startswith(prefix + ".") for prefix in allowed)
        assert known or name.partition(".")[0] in sys.stdlib_module_names, name


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads in /proc")
def test_cpu_threads_are_counted_before_the_first_device():
    code = """
import os, lemurc
from lemurc.runtime import devices
from lemurc.errors import UsageError
devices.set_cpu_threads(COUNT)
before = len(os.listdir("/proc/self/task"))
for k in range(4):
    devices.open_device(f"cpu:{k}")
print(len(os.listdir("/proc/self/task")) - before)
try:
    devices.set_cpu_threads(2)
except UsageError as error:
    assert error.code == "cpu-threads"
else:
    raise SystemExit("no error")
"""
    counts = []
    for count in ("1", "3"):
        done = subprocess.run(
            [sys.executable, "-P", "-c", code.replace("COUNT", count)],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        counts.append(int(done.stdout))
    assert counts[1] - counts[0] == 2
