"""Whatever a user hands in: one clear message, a documented exit status, nothing half-written."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import lemurc
from lemurc.errors import DeviceError, LemurcError, UnsupportedModelError

FACTORY = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
    def forward(self, x):
        return self.layer(x).relu()

def build():
    return Net().eval(), (torch.ones(2, 4),)

class Strange(torch.nn.Module):
    def forward(self, x):
        y = torch.linalg.eigvalsh(x)
        z = torch.geqrf(x)[1]
        return y + z + torch.linalg.eigvalsh(x + 1)

def strange():
    return Strange().eval(), (torch.ones(4, 4),)

def broken():
    raise ValueError("no such checkpoint")

class Raising(torch.nn.Module):
    def forward(self, x):
        raise KeyError("bias")

class Mismatch(torch.nn.Module):
    def forward(self, x):
        return x @ torch.ones(7, 7)

class Branching(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return x + 1

def raising():
    return Raising(), (torch.ones(4, 4),)

def mismatch():
    return Mismatch(), (torch.ones(4, 4),)

def branching():
    return Branching(), (torch.ones(4, 4),)

def warning():
    import warnings
    warnings.warn("an old checkpoint", stacklevel=1)
    warnings.warn_explicit("for torch", FutureWarning, torch.__file__, 1)
    raise ValueError("after both")
"""


def line_of(text: str) -> str:
    """`model.py:12`, the place of a line of FACTORY."""
    lines = FACTORY.splitlines()
    return f"model.py:{next(n for n, line in enumerate(lines, 1) if text in line)}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """model.py, model.lemur made of it, and files that are no models."""
    folder = tmp_path_factory.mktemp("bad")
    (folder / "model.py").write_text(FACTORY)
    (folder / "syntax.py").write_text("import os\ndef build(:\n    pass\n")
    (folder / "absent.py").write_text("import no_such_module\n")
    (folder / "notes.txt").write_text("not a model")
    torch.save(nn.Linear(2, 2), folder / "pickle.pt")
    torch.save(nn.Linear(2, 2).state_dict(), folder / "weights.pt")
    lemurc.compile(f"{folder / 'model.py'}:build", output=folder / "model.lemur")
    return folder


def cli(folder: Path, *argv: str, **options: Any) -> subprocess.CompletedProcess[str]:
    program = "from lemurc.tools.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-P", "-c", program, *argv],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        **options,
    )


COMPILE = {
    "unknown file type": (["notes.txt"], 2, ["notes.txt"]),
    "missing file": (["absent.pt2"], 2, ["absent.pt2"]),
    "pickle": (["pickle.pt"], 2, ["pickle", "--trust-pickle"]),
    "bare state dict": (["weights.pt"], 3, ["weights", "--model file.py:build"]),
    "unknown target": (["model.py:build", "--targets", "cuad"], 2, ["cuad", "cuda"]),
    "unwritable output": (["model.py:build", "-o", "no/such/folder/x.lemur"], 2, ["x.lemur"]),
    "unknown factory": (["model.py:biuld"], 2, ["biuld"]),
    "factory that raises": (
        ["model.py:broken"],
        2,
        ["ValueError: no such checkpoint", line_of("no such checkpoint"), "factory-failed"],
    ),
    "factory with a syntax error": (["syntax.py:build"], 2, ["SyntaxError", "syntax.py:2"]),
    "factory without its import": (["absent.py:build"], 2, ["no_such_module", "absent.py:1"]),
    "forward that raises": (
        ["model.py:raising"],
        3,
        ["forward raised KeyError: 'bias'", line_of('KeyError("bias")')],
    ),
    "forward that torch refuses": (
        ["model.py:mismatch"],
        3,
        ["[4, 4] X [7, 7]", line_of("torch.ones(7, 7)")],
    ),
    "forward that branches": (
        ["model.py:branching"],
        3,
        ["depends on the values", line_of("if x.sum() > 0"), "torch.where"],
    ),
    "pin to no target": (["model.py:build", "--pin", "layer=vulkan"], 2, ["vulkan", "--targets"]),
    "pin to nothing": (["model.py:build", "--pin", "laier.*=cpu"], 2, ["laier"]),
    "no time": (["model.py:build", "--budget", "0.01s"], 7, ["0.01"]),
}


@pytest.mark.parametrize("name", COMPILE)
def test_compile(name: str, folder: Path) -> None:
    argv, status, words = COMPILE[name]
    before = sorted(path.name for path in folder.iterdir())
    ran = cli(folder, "compile", *argv, *([] if "-o" in argv else ["-o", "out.lemur"]))
    assert ran.returncode == status, ran.stderr
    for word in words:
        assert word in ran.stderr
    assert "Traceback" not in ran.stderr
    after = sorted(path.name for path in folder.iterdir() if path.name != "__pycache__")
    assert after == [name for name in before if name != "__pycache__"]


def test_every_unsupported_operation_is_listed_with_its_line(folder: Path) -> None:
    ran = cli(folder, "compile", "model.py:strange", "-o", "out.lemur")
    assert ran.returncode == UnsupportedModelError.exit_status
    for word in (
        "aten._linalg_eigh x2",
        "aten.geqrf x1",
        "model.py:16",
        "model.py:17",
        "model.py:18",
    ):
        assert word in ran.stderr, ran.stderr
    assert not (folder / "out.lemur").exists()


def test_warnings_about_the_users_lines_are_shown_and_no_other(folder: Path) -> None:
    ran = cli(folder, "compile", "model.py:warning", "-o", "out.lemur")
    place = f"at {folder / line_of('an old checkpoint')}"
    assert f"warning: an old checkpoint\n  {place}" in ran.stderr
    assert "for torch" not in ran.stderr
    assert "for torch" in cli(folder, "--debug", "compile", "model.py:warning").stderr


def test_pytorch_talks_to_nobody(folder: Path) -> None:
    """Its log and its half-made graph are not for users."""
    ran = cli(folder, "compile", "model.py:branching", "-o", "out.lemur")
    assert ran.stderr.startswith("import ...\nerror: "), ran.stderr
    assert "torch.ops" not in ran.stderr
    assert "torch.ops" in cli(folder, "--debug", "compile", "model.py:branching").stderr


RUN = {
    "wrong shape": (["--input", "2x5xf32"], 8, ["2, 4", "2, 5"]),
    "wrong dtype": (["--input", "2x4xi64"], 8, ["float32", "int64"]),
    "wrong count": (["--input", "2x4xf32", "--input", "2x4xf32"], 8, ["1", "2"]),
    "no such device": (["--device", "cuda:0"], 6, ["cuda"]),
    "unknown device": (["--device", "gpu"], 6, ["gpu"]),
}


@pytest.mark.parametrize("name", RUN)
def test_run(name: str, folder: Path) -> None:
    argv, status, words = RUN[name]
    ran = cli(folder, "run", "model.lemur", *argv)
    assert ran.returncode == status, ran.stderr
    for word in words:
        assert word in ran.stderr, ran.stderr
    assert "Traceback" not in ran.stderr


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda data: data[: len(data) * 2 // 3],
    "flipped bit": lambda data: data[:9000] + bytes([data[9000] ^ 1]) + data[9001:],
    "empty": lambda data: b"",
    "foreign": lambda data: b"PK\x03\x04 something else",
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_artifact(name: str, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "damaged.lemur"
    path.write_bytes(DAMAGE[name]((folder / "model.lemur").read_bytes()))
    ran = cli(tmp_path, "run", "damaged.lemur")
    assert ran.returncode == 5, ran.stderr
    assert "damaged.lemur" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_no_device_of_any_compiled_target(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "gpu.lemur"
    lemurc.compile(f"{folder / 'model.py'}:build", targets="cuda", output=path)
    with pytest.raises(DeviceError) as caught:
        lemurc.load(path)
    assert caught.value.code == "no-device"
    assert "cuda" in str(caught.value)
    assert "cpu" in str(caught.value)
    assert cli(tmp_path, "run", "gpu.lemur").returncode == 6


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_a_stopped_compile_leaves_nothing(
    folder: Path, tmp_path: Path, number: int, status: int
) -> None:
    program = "from lemurc.tools.cli import main; main()"
    argv = ["compile", "model.py:build", "-o", "late.lemur", "--no-cache"]
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", program, *argv],
        cwd=folder,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    wait_until(lambda: lowering_below(tmp_path))
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == status, err.decode()
    assert not list(folder.glob("*late*"))
    wait_until(lambda: not lowering_below(tmp_path))
    assert number == signal.SIGKILL or not list(tmp_path.iterdir())


def wait_until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def lowering_below(folder: Path) -> list[str]:
    """Processes of the lowering module whose argument lies in `folder`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:
            continue
        if b"lemurc.lowering" in command and str(folder).encode() in command:
            found.append(path.parent.name)
    return found


def test_errors_are_lemurc_errors_in_python_too(folder: Path) -> None:
    with lemurc.load(folder / "model.lemur") as session:
        with pytest.raises(LemurcError) as caught:
            session(np.zeros((2, 5), np.float32))
        assert caught.value.code == "input-shape"
        assert session(np.zeros((2, 4), np.float32)).shape == (2, 3)
