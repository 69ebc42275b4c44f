"""Measuring this machine, with tiny programs, and on a machine without a compiler."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lemurc
from lemurc.errors import ArtifactError, DeviceError, UsageError
from lemurc.system_file import read_system

WITHOUT_COMPILER = """
import sys
for name in ("torch", "torch_mlir", "onnx", "iree.compiler"):
    sys.modules[name] = None  # an import fails, as where it is not installed
import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name == "torch_mlir" else find_spec(name)
from lemurc.tools.cli import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Probe programs for the CPU, few and small."""
    from lemurc import probe_programs

    path = tmp_path_factory.mktemp("probe") / "probe.lemur"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probe_programs, "SIZES", (32, 64))
        patch.setattr(probe_programs, "TYPES", ("f32", "i8"))
        result = lemurc.probe(export=path, targets="cpu:host")
    assert result.path == str(path)
    assert result.system is None
    return path


@pytest.fixture
def little_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    from lemurc.runtime import probe

    monkeypatch.setattr(probe, "THOROUGH", probe.Effort(0.01, 1 << 20, (1 << 12, 1 << 16)))


@pytest.mark.usefixtures("little_effort")
def test_every_figure_of_the_cpu(programs: Path, tmp_path: Path) -> None:
    result = lemurc.probe(tmp_path / "system.json", programs=programs, targets="cpu")
    system = read_system(tmp_path / "system.json")
    assert system == result.system
    (cpu,) = system.devices
    assert (cpu.name, cpu.target, cpu.slowdown) == ("cpu:0", "cpu", 1.0)
    assert set(cpu.flops) == set(cpu.bandwidth) == {"f32", "i8"}
    assert cpu.launch is not None and 0 <= cpu.launch < 1e-2
    assert cpu.call is not None and 0 < cpu.call < 1e-1
    assert cpu.memory is not None and cpu.memory > 1 << 28
    assert cpu.absent == {}
    assert system.provenance.processor and system.provenance.date
    assert system.links == ()  # logical CPUs share their memory


@pytest.mark.usefixtures("little_effort")
def test_a_figure_without_code_is_absent_with_the_reason(programs: Path, tmp_path: Path) -> None:
    from lemurc.runtime import cpu_features

    with cpu_features.override(("x86-64",)):
        result = lemurc.probe(tmp_path / "system.json", programs=programs, targets="cpu")
    assert result.system is not None
    (cpu,) = result.system.devices
    assert cpu.flops == {} and cpu.launch is None
    assert "architecture" in cpu.absent["flops.f32"] and "architecture" in cpu.absent["launch"]


def test_a_machine_with_the_runtime_alone(programs: Path, tmp_path: Path) -> None:
    """With what was exported it measures; without, it says where to get that."""
    environment = os.environ | {"LEMURC_CACHE_DIR": str(tmp_path / "cache")}

    def probe(*argv: Any) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-P", "-c", WITHOUT_COMPILER, "probe", "--json", *map(str, argv)]
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    done = probe("--with", programs, "--quick", "--targets", "cpu")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "probe.v1"
    assert document["path"] == str(tmp_path / "cache" / "system.json")
    assert document["system"]["devices"][0]["flops"]["f32"] > 1e6
    assert read_system(document["path"]).devices[0].name == "cpu:0"
    refused = probe("--targets", "cpu")
    assert refused.returncode == 2
    error = json.loads(refused.stdout)
    assert error["code"] == "probe-needs-programs" and "--export" in error["hint"]


def test_an_artifact_of_something_else(tmp_path: Path, programs: Path) -> None:
    from lemurc.runtime.artifact import Artifact, write

    with Artifact.open(programs) as artifact:
        manifest = dataclasses.replace(
            artifact.manifest, model="net", stages={}, files={}, weights={}
        )
    write(tmp_path / "net.lemur", manifest, {}, {})
    with pytest.raises(ArtifactError) as caught:
        lemurc.probe(tmp_path / "system.json", programs=tmp_path / "net.lemur")
    assert caught.value.code == "no-probe-programs"
    assert not (tmp_path / "system.json").exists()


def test_nothing_to_measure(programs: Path, tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="no device here can be measured"):
        lemurc.probe(tmp_path / "system.json", programs=programs, targets="metal")


def test_a_folder_that_is_not_there(programs: Path, tmp_path: Path) -> None:
    for arguments in ({"output": tmp_path / "no" / "s.json", "programs": programs},
                      {"export": tmp_path / "no" / "p.lemur"}):  # fmt: skip
        with pytest.raises(UsageError) as caught:
            lemurc.probe(**arguments)
        assert caught.value.code == "unwritable-output"


def test_nothing_but_the_probe_runs_probe_programs(programs: Path) -> None:
    lemurc.inspect(programs)
    with pytest.raises(DeviceError):
        lemurc.load(programs)


@pytest.mark.usefixtures("little_effort")
def test_compile_plans_with_what_was_measured_and_says_so(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lemurc.systems import find_description, notes_on, systems
    from lemurc.targets.registry import parse_targets

    monkeypatch.setenv("LEMURC_CACHE_DIR", str(tmp_path))
    requests = parse_targets("cpu")
    assert find_description(None) is None
    result = lemurc.probe(programs=programs, targets="cpu")
    assert result.system is not None
    found = find_description(None)
    (system,) = systems(requests, (), found)
    assert system["devices"][0]["flops"] == result.system.devices[0].flops
    assert system["devices"][0]["name"] == "cpu"
    assert notes_on(requests, found)[0].startswith("planned with cpu:0 as `lemurc probe` measured")
    text = (tmp_path / "system.json").read_text()
    (tmp_path / "system.json").write_text(text.replace('"cores": ', '"cores": 1'))
    assert find_description(None) is None, "another machine's"
