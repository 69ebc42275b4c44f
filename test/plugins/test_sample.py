"""examples/mlir_jit: installed by pip, found by its entry points, used beside the CPU."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import lemurc
from lemurc.errors import ArtifactError, DeviceError
from lemurc.runtime import plugin_devices
from lemurc.runtime.placement import LemurcWarning


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.second(torch.tanh(self.first(x))), -1)


def mixed(tmp_path: Path) -> Path:
    """The first layer on the plug-in's device, the rest on the CPU."""
    result = lemurc.compile(
        Model().eval(), (torch.randn(4, 8),), targets="cpu,mlir_jit", pins=("first*=mlir_jit",),
        output=tmp_path / "mixed.lemur",
    )  # fmt: skip
    assert {verdict.status for verdict in result.verdicts} == {"verified"}
    return result.path


def alone(tmp_path: Path) -> Path:
    return lemurc.compile(
        Model().eval(), (torch.randn(4, 8),), targets="mlir_jit", output=tmp_path / "alone.lemur"
    ).path


def test_the_command_line_compiles_and_runs_a_mixed_program(sample: Path, tmp_path: Path) -> None:
    source = tmp_path / "net.py"
    source.write_text(
        "import torch\n"
        "def build():\n"
        "    torch.manual_seed(0)\n"
        "    layers = [torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 8)]\n"
        "    return torch.nn.Sequential(*layers).eval(), (torch.randn(4, 8),)\n"
    )
    artifact = tmp_path / "net.lemur"

    def call(*arguments: str) -> str:
        command = [sys.executable, "-m", "lemurc", *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, env=os.environ)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    pinned = call(
        "compile", f"{source}:build", "--targets", "cpu,mlir_jit", "--pin", "0=mlir_jit",
        "-o", str(artifact),
    )  # fmt: skip
    assert "mlir_jit:  verified" in pinned and "cpu:       verified" in pinned
    said = call("run", str(artifact))
    assert "golden outputs: equal" in said
    (placement,) = [line for line in said.splitlines() if line.startswith("placement:")]
    assert "mlir_jit:0" in placement and "cpu:0" in placement
    assert "of lemurc-mlir-jit" not in said
    devices = json.loads(call("devices", "--json"))["devices"]
    assert {"mlir_jit:0"} <= {device["name"] for device in devices}
    rows = json.loads(call("targets", "--json"))["targets"]
    assert {row["name"]: row["package"] for row in rows}["mlir_jit"] == "lemurc-mlir-jit 0.1.0"
    items = json.loads(call("doctor", "--json"))["items"]
    assert {"target mlir_jit", "device mlir_jit"} <= {item["name"] for item in items if item["ok"]}


def test_weights_are_uploaded_once_however_many_stages_read_them(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = nn.Linear(8, 8, bias=False)
    model = nn.Sequential(layer, nn.Softmax(-1), layer, nn.Softmax(-1)).eval()
    path = lemurc.compile(
        model, (torch.randn(2, 8),), targets="mlir_jit", largest_stage=1, verify=False,
        output=tmp_path / "m.lemur",
    ).path  # fmt: skip
    from lemurc_mlir_jit import device

    uploaded: list[tuple[int, ...]] = []
    upload = device.Device.upload

    def counted(self: device.Device, array: np.ndarray) -> object:
        uploaded.append(array.shape)
        return upload(self, array)

    monkeypatch.setattr(device.Device, "upload", counted)
    with lemurc.load(path) as session:
        steps = session.plan.steps["main"]
        assert len(steps) >= 3
        assert uploaded == [(8, 8)]
        session(np.ones((2, 8), np.float32))
    assert uploaded == [(8, 8), (2, 8)]  # between stages nothing leaves the device


def test_without_the_package_the_next_plan_runs_and_says_why(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, x = mixed(tmp_path), np.ones((4, 8), np.float32)
    with lemurc.load(path) as session:
        want = session(x)
        assert session.devices == ("cpu:0", "mlir_jit:0")
    uninstall(sample, monkeypatch)
    with pytest.warns(LemurcWarning, match="no installed package has a device of kind 'mlir_jit'"):
        session = lemurc.load(path)
    with session:
        assert session.devices == ("cpu:0",)
        np.testing.assert_allclose(session(x), want, rtol=1e-5)


def test_without_the_package_and_without_another_plan_one_error_names_it(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = alone(tmp_path)
    uninstall(sample, monkeypatch)
    for devices in (None, ["mlir_jit:0"]):
        with pytest.raises(DeviceError) as caught:
            lemurc.load(path, devices=devices)
        assert caught.value.code == "no-device"
        assert "no installed package has a device of kind 'mlir_jit'" in caught.value.message
        assert "install lemurc-mlir-jit 0.1.0" in caught.value.hint


def uninstall(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(sample)])
    plugin_devices.forget()


def test_code_is_hashed_before_the_device_sees_it(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = alone(tmp_path)
    from lemurc_mlir_jit import device

    seen: list[int] = []
    load = device.Device.load

    def watched(self: device.Device, code: memoryview, weights: list[object]) -> object:
        seen.append(len(code))
        return load(self, code, weights)

    monkeypatch.setattr(device.Device, "load", watched)
    content = bytearray(path.read_bytes())
    content[content.index(b"MLIRJIT") + 100] ^= 1
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match="is damaged") as caught:
        lemurc.load(path)
    assert caught.value.code == "corrupt-artifact"
    assert not seen


def test_code_of_another_version_is_refused(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = alone(tmp_path)
    from lemurc_mlir_jit import executable

    monkeypatch.setattr(executable, "MAGIC", b"MLIRJIT\2")
    with pytest.raises(ArtifactError, match="cannot load stage s0 on mlir_jit:0") as caught:
        lemurc.load(path)
    assert caught.value.code == "incompatible-module"
    assert "lemurc-mlir-jit 0.1.0" in caught.value.hint


def test_results_of_the_device_are_read_by_dlpack(sample: Path, tmp_path: Path) -> None:
    with lemurc.load(alone(tmp_path)) as session:
        x = np.ones((4, 8), np.float32)
        stays = session(x, outputs="device")
        np.testing.assert_array_equal(torch.from_dlpack(stays).numpy(), session(x))


def test_operators_left_to_pytorch_run_between_its_stages(sample: Path, tmp_path: Path) -> None:
    class Middle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.first(x)
            return self.last(torch.linalg.eigvalsh(y @ y.T))

    model, x = Middle().eval(), torch.randn(6, 6)
    result = lemurc.compile(
        model, (x,), targets="mlir_jit", allow_host_ops=True, output=tmp_path / "m.lemur"
    )
    assert [verdict.status for verdict in result.verdicts] == ["verified"]
    with lemurc.load(result.path) as session, torch.no_grad():
        torch.testing.assert_close(session(x), model(x), rtol=1e-4, atol=1e-5)
        assert "host (PyTorch)" in session.placement_line()


def test_its_stages_and_transfers_are_in_a_trace(sample: Path, tmp_path: Path) -> None:
    output = tmp_path / "trace.json"
    result = lemurc.trace(mixed(tmp_path), output=output, calls=2)
    events = json.loads(output.read_text())["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    stages = [(names[e["pid"]], e["args"]["call"]) for e in events if e.get("cat") == "stage"]
    assert sorted(stages) == [("cpu:0", 0), ("cpu:0", 1), ("mlir_jit:0", 0), ("mlir_jit:0", 1)]
    moved = {e["args"]["value"]: e["args"]["bytes"] for e in events if e.get("cat") == "transfer"}
    assert moved["x"] == 4 * 8 * 4, "the input, on its way to the plug-in's device"
    assert len(moved) == 2, "and what comes back"
    # one may be shorter than threads can tell; see runtime/recorder.py
    assert any(e["dur"] > 0 for e in events if e.get("cat") == "stage")
    assert {track.device for track in result.tracks} == {"host", "cpu:0", "mlir_jit:0"}
    assert not [t for t in threading.enumerate() if t.name == "lemurc mlir_jit:0"], "all ended"


def test_steps_are_timed_and_predicted(sample: Path, tmp_path: Path) -> None:
    with lemurc.load(mixed(tmp_path)) as session:
        times = session.step_times("main", [np.ones((4, 8), np.float32)], calls=3)
        assert {step.device for step in times} == {"cpu:0", "mlir_jit:0"}
        assert all(step.minimum > 0 for step in times)
