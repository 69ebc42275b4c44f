"""A pass made wrong on purpose is found, with the operator and a reproducer that repeats it."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import lemurc
from lemurc.tools.bisect import BisectResult
from lemurc.tools.commands.bisect import lines

SUBTRACTS_BACKWARDS = """
from lemurc.passes.{module} import {name}
right = {name}.run

def run(self, module):
    right(self, module)
    found = []
    def visit(operation):
        from torch_mlir import ir
        if operation.name == "arith.subf":
            found.append(operation)
        return ir.WalkResult.ADVANCE
    module.walk(visit)
    for operation in found:
        left, right_ = operation.operands
        operation.operands[0], operation.operands[1] = right_, left

{name}.run = run
"""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.first(x))
        z = y - x  # the line
        return self.second(z) * 2


LINE = next(
    number for number, text in enumerate(Path(__file__).read_text().splitlines(), 1)
    if text.endswith("# the line")
)  # fmt: skip


@pytest.fixture
def wrong_pass(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """`wrong_pass(module, name)` breaks a pass in the lowering processes to come."""

    def break_(module: str, name: str) -> None:
        hook = tmp_path / "hook"
        hook.mkdir()
        (hook / "sitecustomize.py").write_text(
            "import sys\n"
            "if any('lemurc.lowering' in word for word in sys.orig_argv):\n"
            + "".join(
                f"    {line}\n"
                for line in SUBTRACTS_BACKWARDS.format(module=module, name=name).splitlines()
            )
        )
        path = [str(hook), os.environ.get("PYTHONPATH", "")]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))

    return break_


@pytest.mark.parametrize(
    ("module", "name", "step"),
    [("fuse", "Fuse", "fuse"), ("finish_lowering", "FinishLowering", "")],
)
def test_a_wrong_pass(module: str, name: str, step: str, wrong_pass: Any, tmp_path: Path) -> None:
    wrong_pass(module, name)
    torch.manual_seed(0)
    folder = tmp_path / "bisect"
    result = lemurc.bisect(Net().eval(), (torch.randn(3, 4),), output=folder)
    assert not result.ok
    assert result.op == "aten.sub.Tensor"
    assert result.line.endswith(f"test_bisect.py:{LINE}")
    assert result.step == step
    assert result.device == "cpu" and result.stage == "s0"
    assert "error" in result.detail
    assert result.isolated
    assert any((folder / "ir" / "passes").glob("*-import.mlir"))
    assert len(list(folder.glob("input*.npy"))) == 2

    repeated = run(result.command, folder)
    assert repeated.returncode == 4, repeated.stderr
    if step:
        limited = run(f"{result.command} --pass-limit {result.step_number - 1}", folder)
        assert limited.returncode == 0, limited.stderr


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    verb, *words = shlex.split(command)
    assert verb == "lemurc"
    return subprocess.run(
        [sys.executable, "-P", "-m", "lemurc", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_nothing_differs(tmp_path: Path) -> None:
    result = lemurc.bisect(Net().eval(), (torch.randn(3, 4),), output=tmp_path / "bisect")
    assert result.ok and result.trials == 1


def test_command_line(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "class M(torch.nn.Module):\n"
        "    def forward(self, x): return x - torch.relu(x)\n"
        "def build(): return M(), (torch.randn(3, 4),)\n"
    )
    done = run("lemurc bisect net.py:build --json -o found", tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["ok"] and report["schema"] == "bisect.v1"


def test_what_a_person_reads() -> None:
    found = BisectResult(
        False, "main", "aten.sub.Tensor", "net.py:3", "fuse", 7, "s0", "cpu", True,
        "cpu: main: output0: error 1.0e+00", "bisect", "lemurc compile program.pt2", 12,
    )  # fmt: skip
    assert lines(found) == [
        "operator: aten.sub.Tensor at net.py:3 (alone)",
        "step: fuse, number 7",
        "stage: s0 on cpu",
        "  cpu: main: output0: error 1.0e+00",
        "reproducer: bisect/command.txt",
        "  lemurc compile program.pt2",
    ]
    assert lines(BisectResult(True, "main")) == ["nothing differs: main is what eager computes"]


def test_a_function_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(lemurc.LemurcError) as caught:
        lemurc.bisect(Net().eval(), (torch.randn(3, 4),), function="other", output=tmp_path)
    assert caught.value.code == "unknown-function"
