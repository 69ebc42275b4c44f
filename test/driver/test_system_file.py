"""system.json: what is read, and the message for each way to get it wrong."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from lemurc import system_file
from lemurc.errors import UsageError
from lemurc.system_file import known_devices, read_system, system_from, write_system
from lemurc.targets.registry import get

CPU = {"name": "cpu:0", "target": "cpu"}
GPU = {"name": "gpu", "known": "h100"}
LINK = {"src": "cpu:0", "dst": "gpu", "latency": 1e-5, "bandwidth": {"65536": 1e9}}


def read(devices: Any = (CPU,), **rest: Any) -> system_file.SystemDescription:
    devices = list(devices) if isinstance(devices, tuple) else devices
    return system_from({"schema": "system.v1", "devices": devices, **rest}, "system.json")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "not an object"),
        ({"schema": "system.v2", "devices": [CPU]}, "schema: 'system.v2'"),
        ({}, "it: the field 'devices' is missing"),
        ({"devices": []}, "devices: there must be at least one"),
        ({"devices": {}}, "devices: expected a list"),
        ({"devices": [3]}, r"devices\[0\]: expected an object, got 3"),
        ({"devices": [CPU], "link": []}, "link: there is no such field"),
        ({"devices": [{"target": "cpu"}]}, r"devices\[0\]: the field 'name' is missing"),
        ({"devices": [{"name": "a"}]}, r"devices\[0\]: it has neither 'target' nor 'known'"),
        ({"devices": [CPU, CPU]}, r"devices\[1\].name: 'cpu:0' is not a name of its own"),
        ({"devices": [CPU | {"flop": 1}]}, r"devices\[0\].flop: there is no such field"),
        ({"devices": [CPU | {"flops": "fast"}]}, r"devices\[0\].flops: expected a number, or an"),
        ({"devices": [CPU | {"flops": {"f32": -1}}]}, r"devices\[0\].flops.f32: -1"),
        ({"devices": [CPU | {"flops": {"fp32": 1}}]}, "'fp32' is not an element type"),
        ({"devices": [CPU | {"memory": "8G"}]}, r"devices\[0\].memory: expected a whole number"),
        ({"devices": [CPU | {"memory": 1.5}]}, r"devices\[0\].memory: expected a whole number"),
        ({"devices": [CPU | {"launch": -1e-6}]}, r"devices\[0\].launch: -1e-06"),
        ({"devices": [CPU | {"slowdown": 0}]}, r"devices\[0\].slowdown: 0"),
        ({"devices": [CPU | {"threads": True}]}, r"devices\[0\].threads: expected a whole number"),
        ({"devices": [GPU | {"known": "H1000"}]}, r"devices\[0\].known: .* 'H1000'"),
        ({"devices": [GPU | {"target": "rocm"}]}, r"devices\[0\].target: .* 'rocm'"),
        ({"devices": [CPU], "links": [LINK]}, r"links\[0\].dst: there is no device 'gpu'"),
        ({"devices": [CPU, GPU], "links": [LINK, LINK]}, r"links\[1\]: a second link"),
        ({"devices": [CPU], "links": [LINK | {"dst": "cpu:0"}]}, r"links\[0\]: .* to itself"),
        (
            {"devices": [CPU, GPU], "links": [LINK | {"bandwidth": {"1M": 1e9}}]},
            r"links\[0\].bandwidth: '1M' is not a size",
        ),
        (
            {"devices": [CPU, GPU], "links": [LINK | {"bandwidth": {"²": 1e9}}]},
            r"links\[0\].bandwidth: '²' is not a size",
        ),
        (
            {"devices": [CPU, GPU], "links": [LINK | {"bandwidth": {"9" * 5000: 1e9}}]},
            r"links\[0\].bandwidth: '9+' is not a size",
        ),
        ({"devices": [CPU, GPU], "links": [LINK | {"latency": 1e9}]}, r"latency: 1000000000.0 is"),
        ({"devices": [CPU | {"memory": float("inf")}]}, r"memory: it is not a finite number"),
        ({"devices": [CPU | {"memory": float("nan")}]}, r"memory: it is not a finite number"),
        ({"devices": [CPU | {"memory": 10**400}]}, r"memory: it is not a finite number"),
        ({"devices": [CPU | {"bandwidth": 1e-300}]}, r"bandwidth.f32: 1e-300 is not a number from"),
        ({"devices": [CPU | {"slowdown": 1e300}]}, r"slowdown: 1e\+300 is not a number from"),
        ({"devices": [CPU | {"threads": 10**9}]}, r"threads: 1000000000 is not a number from"),
    ],
)
def test_a_wrong_field_is_named(document: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        system_from(document, "system.json")
    assert caught.value.code == "bad-system"
    assert caught.value.where == "system.json"
    assert caught.value.hint


def test_a_name_nearly_right_is_suggested() -> None:
    for wrong, right in (({"flop": 1}, "flops"), ({"flops": {"fp16": 1}}, "f16")):
        with pytest.raises(UsageError) as caught:
            read((CPU | wrong,))
        assert right in caught.value.hint


@pytest.mark.parametrize("text", ["", "{", None])
def test_a_file_that_is_no_json_or_not_there(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "system.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match="cannot read it|not JSON") as caught:
        read_system(path)
    assert caught.value.where == str(path)


def test_a_number_is_the_rate_of_every_type_and_size() -> None:
    system = read((CPU | {"flops": 2e11}, GPU), links=[LINK | {"bandwidth": 3e9}])
    assert system.devices[0].flops == {"f32": 2e11}
    assert set(system.links[0].bandwidth.values()) == {3e9}


def test_a_known_device_gives_what_the_file_does_not() -> None:
    device = read((GPU | {"memory": 40 << 30, "flops": {"f16": 5e14}},)).devices[0]
    known = known_devices()["H100"]
    assert (device.target, device.arch) == ("cuda", "sm_90")
    assert device.memory == 40 << 30
    assert device.flops == known.flops | {"f16": 5e14}
    assert device.bandwidth == known.bandwidth
    assert device.launch is None  # no datasheet says it


def test_a_known_gpu_may_be_driven_by_vulkan() -> None:
    device = read((GPU | {"target": "vulkan"},)).devices[0]
    assert (device.target, device.arch) == ("vulkan", "")


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    system = read((CPU | {"absent": {"flops.f16": "no code"}}, GPU), links=[LINK])
    write_system(tmp_path / "system.json", system)
    assert read_system(tmp_path / "system.json") == system
    assert [path.name for path in tmp_path.iterdir()] == ["system.json"]


def test_known_devices_have_a_source_for_each_figure_and_a_target_that_compiles() -> None:
    known = known_devices()
    wanted = {"A100", "H100", "H200", "L4", "T4", "RTX 4090", "MI300X", "MI250", "RX 7900 XTX"}
    assert set(known) == wanted
    for name, device in known.items():
        assert {"flops", "bandwidth", "memory"} <= set(device.sources), name
        assert "http" in device.sources["flops"], name
        target = get(device.target)
        assert target.architecture(device.arch) or device.arch in target.same_as, name
        assert device.flops["f32"] < device.flops["f16"], name


def test_the_schema_accepts_what_is_written_and_refuses_what_is_unknown() -> None:
    path = Path(__file__).parents[2] / "docs" / "schema" / "system.v1.json"
    schema = json.loads(path.read_text())
    written = json.loads(system_file.to_json(read((CPU, GPU), links=[LINK])))
    jsonschema.validate(written, schema)
    jsonschema.validate({"devices": [CPU | {"flops": 1e9}]}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"devices": [CPU | {"flop": 1e9}]}, schema)
