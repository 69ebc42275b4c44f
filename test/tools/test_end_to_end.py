"""The verbs on a real model, each in a process of its own, as a person would type them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

pytest.importorskip("torch_mlir", reason="needs lemurc[compile]")

SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"
LEMURC = [sys.executable, "-P", "-c", "from lemurc.tools.cli import main; main()"]
MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x):
        return torch.relu(self.linear(x))

def build():
    return Net().eval(), (torch.randn(2, 8),)
"""


def lemurc(*argv: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*LEMURC, *argv], cwd=cwd, capture_output=True, text=True, timeout=300)


def document(*argv: str, cwd: Path) -> Any:
    ran = lemurc(*argv, "--json", cwd=cwd)
    assert ran.returncode == 0, ran.stderr
    parsed = json.loads(ran.stdout)
    schema = json.loads((SCHEMAS / f"{parsed['schema']}.json").read_text())
    jsonschema.validate(parsed, schema)
    return parsed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with net.py and the net.lemur made of it."""
    here = tmp_path_factory.mktemp("net")
    (here / "net.py").write_text(MODEL)
    compiled = document("compile", "net.py:build", "-o", "net.lemur", cwd=here)
    assert compiled["path"] == "net.lemur"
    assert [(v["target"], v["status"]) for v in compiled["verdicts"]] == [("cpu", "verified")]
    return here


def test_run_meets_the_golden_outputs(folder: Path) -> None:
    ran = document("run", "net.lemur", "--device", "cpu", cwd=folder)
    assert ran["ok"] and ran["inputs_from"] == "golden"
    assert ran["outputs"][0]["shape"] == [2, 4]


def test_verify_bench_and_inspect(folder: Path) -> None:
    assert document("verify", "net.lemur", cwd=folder)["ok"]
    assert document("bench", "net.lemur", "--iterations", "5", cwd=folder)["timings"]
    assert list(document("inspect", "net.lemur", cwd=folder)["targets"]) == ["cpu"]


def test_the_text_ends_with_what_to_type_next(folder: Path) -> None:
    ran = lemurc("compile", "net.py:build", "-o", "again.lemur", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    assert "verified" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "next: lemurc run again.lemur"
    assert (folder / "again.lemur").read_bytes() == (folder / "net.lemur").read_bytes()


def test_running_imports_neither_torch_nor_a_compiler(folder: Path) -> None:
    code = (
        "import sys\nfrom lemurc.tools.cli import run\nstatus = run(['run', 'net.lemur'])\n"
        "heavy = {'torch', 'torch_mlir', 'iree.compiler'} & set(sys.modules)\n"
        "sys.exit(status or (f'imported {heavy}' if heavy else 0))\n"
    )
    command = [sys.executable, "-P", "-c", code]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr


def test_a_truncated_artifact(folder: Path) -> None:
    whole = (folder / "net.lemur").read_bytes()
    (folder / "half.lemur").write_bytes(whole[: len(whole) // 2])
    ran = lemurc("run", "half.lemur", cwd=folder)
    assert ran.returncode == 5
    assert "Traceback" not in ran.stderr


@pytest.fixture(scope="module")
def seconds(tmp_path_factory: pytest.TempPathFactory) -> float:
    """How long a compilation takes here that has nothing in the cache."""
    here = tmp_path_factory.mktemp("timed")
    (here / "net.py").write_text(MODEL)
    begin = time.monotonic()
    assert lemurc("compile", "net.py:build", "--no-cache", cwd=here).returncode == 0
    return time.monotonic() - begin


@pytest.mark.parametrize("share", [0.2, 0.4, 0.6])
def test_interrupting_a_compilation_leaves_nothing(
    tmp_path: Path, seconds: float, share: float
) -> None:
    (tmp_path / "net.py").write_text(MODEL)
    command = [*LEMURC, "compile", "net.py:build", "--no-cache", "-o", "net.lemur"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    time.sleep(share * seconds)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    left = {path.name for path in tmp_path.iterdir()} - {"__pycache__"}
    if process.returncode == 0:
        pytest.skip("it was done before it was interrupted")
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert left == {"net.py"}
