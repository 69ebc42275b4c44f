"""Packages that are wrong: one clear error that names the package, and no traceback."""

import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import lemurc
from lemurc.errors import ArtifactError, BudgetError, DeviceError, UnsupportedModelError, UsageError
from lemurc.runtime.placement import LemurcWarning
from lemurc.targets import registry
from lemurc.targets.base import Compiler
from lemurc.targets.compiler_process import CompilerProcess
from lemurc.tools.targets import targets

Install = Callable[..., Path]

COPIES = """
    import shutil, sys
    shutil.copyfile(sys.argv[1], sys.argv[sys.argv.index("-o") + 1])
"""
"""A compiler whose executables are the stages themselves."""

DOUBLES = """
    import numpy as np

    class Buffer:
        def __init__(self, array):
            self.array, self.shape, self.dtype = array, array.shape, array.dtype

    class Submission:
        def __init__(self, outputs):
            self.outputs = outputs

        def wait(self):
            {wait}

    class Stage:
        def submit(self, inputs):
            {submit}
            return Submission([Buffer(inputs[0].array * 2)])

    class Device:
        def upload(self, array):
            {upload}
            return Buffer(array.copy())

        def download(self, buffer, array):
            {download}
            array[...] = buffer.array

        def load(self, code, weights):
            {load}
            return Stage()

    class Driver:
        def devices(self):
            {devices}
            return ["doubles what it is given"]

        def open(self, number):
            {open}
            return Device()

    DRIVER = Driver()
"""


def doubles(**broken: str) -> str:
    """A device that runs one model, `Double`; `broken` are statements to begin methods with."""
    steps = ("wait", "submit", "upload", "download", "load", "devices", "open")
    return DOUBLES.format(**{step: broken.get(step, "pass") for step in steps})


class Double(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def compiled(targets: str, tmp_path: Path, **options: Any) -> Any:
    options = {"verify": False, **options}
    output = tmp_path / "m.lemur"
    model = torch.nn.Sequential(Double())
    return lemurc.compile(model, (torch.ones(3),), targets=targets, output=output, **options)


# The target


def test_a_package_that_cannot_be_imported_is_in_nobodys_way(
    install: Install, tmp_path: Path
) -> None:
    install("toy", target="import no_such_library")
    with pytest.raises(UsageError, match="toy-package 1.0, which adds 'toy'") as caught:
        compiled("toy", tmp_path)
    assert caught.value.code == "broken-plugin"
    assert "No module named 'no_such_library'" in caught.value.message
    assert compiled("cpu", tmp_path).path.exists()
    assert "toy" not in registry.targets()
    assert "no_such_library" in targets().broken["toy"]


def test_two_packages_of_one_name_are_both_named(install: Install, tmp_path: Path) -> None:
    install("toy")
    folder = tmp_path / "site-toy" / "other-2.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 2.0\n")
    (folder / "entry_points.txt").write_text("[lemurc.targets]\ntoy = elsewhere:TARGET\n")
    with pytest.raises(UsageError, match="two packages add 'toy'") as caught:
        registry.get("toy")
    assert "toy-package 1.0" in caught.value.message and "other 2.0" in caught.value.message


def test_a_package_cannot_take_a_name_of_ours(install: Install) -> None:
    install("cpu")
    assert registry.get("cpu").backend == "llvm-cpu"
    assert registry.targets()["cpu"].compiler is None


def test_a_misspelt_name_of_a_package_gets_a_hint(install: Install) -> None:
    install("gizmo")
    with pytest.raises(UsageError) as caught:
        registry.get("gizmos")
    assert caught.value.hint == "did you mean 'gizmo'?"


# The compiler


@pytest.mark.parametrize(
    ("compiler", "said"),
    [
        ("import sys; sys.exit('error: no code for stages like this')", "no code for stages like"),
        ("raise KeyError('tanh')", "refuses it .*KeyError: 'tanh'"),
        ("import os; os.abort()", "crashes on it .*killed by SIGABRT"),
        ("import ctypes; ctypes.string_at(0)", "crashes on it .*"),
        ("pass", "refuses it .*wrote no code"),
        ("import time; time.sleep(600)", "crashes on it .*did not end within 2 s"),
    ],
)
def test_a_compiler_that_fails_is_one_error(
    install: Install, tmp_path: Path, compiler: str, said: str
) -> None:
    install("toy", compiler=compiler, time_limit=2.0)
    with pytest.raises(UnsupportedModelError, match=said) as caught:
        compiled("toy", tmp_path)
    assert caught.value.code == "code-generation"
    assert "the compiler of toy-package 1.0" in caught.value.message
    reproducer = Path(caught.value.message.rpartition("reproducer: ")[2])
    assert (reproducer / "stage.mlirbc").stat().st_size > 0
    assert "python -m toy_compiler stage.mlirbc -o" in (reproducer / "command.sh").read_text()


def test_where_a_compiler_fails_the_other_targets_serve(install: Install, tmp_path: Path) -> None:
    install("toy", compiler="raise SystemExit('error: not today')")
    result = compiled("cpu,toy", tmp_path)
    assert {device.target for plan in result.manifest.plans for device in plan.devices} == {"cpu"}
    assert any("toy-package 1.0" in note and "not today" in note for note in result.notes)


def test_the_budget_ends_a_compiler_and_its_children(install: Install, tmp_path: Path) -> None:
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', '{}'])"
    mark = f"import time; time.sleep(600)  # {tmp_path.name}"
    install("toy", compiler=child.format(mark))
    with pytest.raises(BudgetError, match="took longer than 6 s") as caught:
        compiled("toy", tmp_path, budget_s=6.0)
    assert caught.value.code == "time-budget" and "toy:one" in caught.value.where
    time.sleep(0.2)
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if mark in _read(path)]
    assert not left


def _read(path: Path) -> str:
    try:
        return path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def test_executables_are_cached_by_the_version_of_the_compiler(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    begin = CompilerProcess.__init__

    def watched(self: CompilerProcess, tool: Any, *rest: Any) -> None:
        started.append(tool.version)
        begin(self, tool, *rest)

    monkeypatch.setattr(CompilerProcess, "__init__", watched)
    install("first", compiler=COPIES, version="1")
    compiled("first", tmp_path)
    compiled("first", tmp_path)
    assert started == ["first_compiler 1"]
    target = registry.get("first")
    newer = Compiler(target.compiler.module, "2")
    monkeypatch.setattr(
        registry, "_plugged_in", lambda plugin: dataclasses.replace(target, compiler=newer)
    )
    compiled("first", tmp_path)
    assert started == ["first_compiler 1", "first_compiler 2"]


def test_a_package_on_a_relative_path_is_found(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = install("toy", compiler=COPIES)
    monkeypatch.chdir(folder.parent)
    inherited = os.environ["PYTHONPATH"].split(os.pathsep)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([folder.name, *inherited[1:]]))
    assert inherited[0] == str(folder)
    assert compiled("toy", tmp_path).path.exists()


# The device


@pytest.fixture
def toy(install: Install, tmp_path: Path) -> Callable[..., Path]:
    def make(targets: str = "toy", pins: tuple[str, ...] = (), **broken: str) -> Path:
        install("toy", compiler=COPIES, device=doubles(**broken))
        path: Path = compiled(targets, tmp_path, pins=pins).path
        return path

    return make


def test_a_device_of_a_few_lines_runs(toy: Callable[..., Path]) -> None:
    with lemurc.load(toy()) as session:
        np.testing.assert_array_equal(session(np.ones(3, np.float32)), np.full(3, 2, np.float32))
        assert session.placement_line().startswith("toy:0 1/1 ops")


@pytest.mark.parametrize(
    ("broken", "code", "said"),
    [
        ({"devices": "raise RuntimeError('no libtoy.so')"}, "no-device", "no libtoy.so"),
        ({"devices": "return []"}, "no-device", "toy-package 1.0 finds no device"),
        ({"open": "raise OSError('busy')"}, "device-failed", "cannot open the device on toy:0"),
        ({"load": "raise ValueError('for model B')"}, "incompatible-module", "for model B"),
        ({"load": "raise KeyError('run')"}, "device-failed", "cannot load stage s0 on toy:0"),
    ],
)
def test_a_device_that_cannot_be_loaded_on(
    toy: Callable[..., Path], broken: dict[str, str], code: str, said: str
) -> None:
    path = toy(**broken)
    with pytest.raises((DeviceError, ArtifactError), match=said) as caught:
        lemurc.load(path, strict=True)
    assert caught.value.code == code
    assert "toy-package 1.0" in str(caught.value)


@pytest.mark.parametrize("step", ["upload", "submit", "wait", "download"])
def test_a_device_that_fails_in_a_call(toy: Callable[..., Path], step: str) -> None:
    with lemurc.load(toy(**{step: "raise RuntimeError('bus error')"}), strict=True) as session:
        with pytest.raises(DeviceError, match="toy-package 1.0: RuntimeError: bus error") as caught:
            session(np.ones(3, np.float32))
    assert caught.value.code == "device-failed" and caught.value.where == "toy:0"


def test_out_of_memory_is_told_as_that(toy: Callable[..., Path]) -> None:
    with lemurc.load(toy(upload="raise MemoryError('12 bytes')"), strict=True) as session:
        with pytest.raises(DeviceError, match="12 bytes") as caught:
            session(np.ones(3, np.float32))
    assert caught.value.code == "out-of-memory"


def test_after_a_failure_the_next_plan_answers(toy: Callable[..., Path]) -> None:
    path = toy("toy,cpu", ("0=toy",), submit="raise RuntimeError('bus error')")
    with lemurc.load(path) as session:
        assert session.devices == ("toy:0",)
        with pytest.warns(LemurcWarning, match="bus error"):
            got = session(np.ones(3, np.float32))
        np.testing.assert_array_equal(got, np.full(3, 2, np.float32))
        assert session.devices == ("cpu:0",)


def test_a_stage_with_too_few_results_is_noticed(toy: Callable[..., Path]) -> None:
    with lemurc.load(toy(submit="return Submission([])"), strict=True) as session:
        with pytest.raises(DeviceError, match="gives 0 results of stage s0, which has 1"):
            session(np.ones(3, np.float32))
