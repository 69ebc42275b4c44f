"""Plans for devices that are short of memory, or unequal, run on simulated ones."""

from types import ModuleType
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

import lemurc
from lemurc.errors import DeviceError, UsageError
from lemurc.system_file import DeviceDescription, SystemDescription, write_system

MODELS = ("gpt2", "llama", "resnet18")
OBJECTIVES = ("latency", "throughput", "memory")


def system(count: int, memory: int | None) -> SystemDescription:
    devices = (
        DeviceDescription(f"cpu:{k}", "cpu", threads=1, slowdown=1.0 + k, memory=memory)
        for k in range(count)
    )
    return SystemDescription(tuple(devices))


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", MODELS)
def test_plans_keep_to_the_memory_of_devices(
    name: str, objective: str, zoo: ModuleType, tmp_path: Any
) -> None:
    """Each of three devices is too small for the model; `strict` lets no other plan run."""
    model, args = zoo.ZOO[name]()
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    small = system(3, int(0.75 * weights) + 400_000)
    write_system(tmp_path / "system.json", small)
    result = lemurc.compile(
        model, args, system=tmp_path / "system.json", objective=objective,
        verify=False, golden="none", output=tmp_path / "model.lemur",
    )  # fmt: skip
    with lemurc.load(result.path, simulate=small, strict=True) as session:
        assert len(session.devices) > 1
        with torch.no_grad():
            want = tree_leaves(model(*args))
        for y, r in zip(tree_leaves(session(*args)), want, strict=True):
            scale = r.abs().max()
            torch.testing.assert_close(y / scale, r / scale, rtol=0, atol=1e-4)
        predicted = session.plan.predicted["main"].memory
        for device in session.simulated:
            assert device.memory is not None
            assert 0 < device.peak_bytes <= device.memory
            if device.device in predicted:  # where something is computed
                assert device.peak_bytes <= 1.05 * predicted[device.device].peak


def test_throughput_uses_what_latency_leaves_idle(zoo: ModuleType, tmp_path: Any) -> None:
    model, args = zoo.ZOO["bert"]()
    described = system(2, None)
    write_system(tmp_path / "system.json", described)
    used = {}
    for objective in ("latency", "throughput"):
        path = tmp_path / f"{objective}.lemur"
        options = {"verify": False, "golden": "none", "system": tmp_path / "system.json"}
        result = lemurc.compile(model, args, objective=objective, output=path, **options)
        plan = result.manifest.plans[0]
        used[objective] = plan.predicted["main"].seconds_by_device
    assert set(used["latency"]) == {"cpu:0"}
    assert set(used["throughput"]) == {"cpu:0", "cpu:1"}
    assert max(used["throughput"].values()) < used["latency"]["cpu:0"]


def test_an_unknown_objective(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match="unknown objective 'speed'"):
        lemurc.compile(torch.nn.ReLU(), (torch.ones(2),), objective="speed")


def test_too_little_memory_everywhere_says_so(zoo: ModuleType, tmp_path: Any) -> None:
    model, args = zoo.ZOO["bert"]()
    write_system(tmp_path / "system.json", system(2, 50_000))
    with pytest.raises((UsageError, DeviceError), match="no placement fits"):
        lemurc.compile(model, args, system=tmp_path / "system.json", output=tmp_path / "m.lemur")


def test_what_is_wide_is_computed_in_chunks_where_memory_is_short(tmp_path: Any) -> None:
    """The hidden layer of the feed-forward part is larger than the device."""
    torch.manual_seed(0)
    layers = torch.nn.Linear(32, 512), torch.nn.GELU(), torch.nn.Linear(512, 32)
    model, args = torch.nn.Sequential(*layers).eval(), (torch.randn(512, 32),)
    hidden = 512 * 512 * 4

    def compiled(memory: int) -> tuple[Any, SystemDescription]:
        small = system(1, memory)
        write_system(tmp_path / "system.json", small)
        output, described = tmp_path / "model.lemur", tmp_path / "system.json"
        result = lemurc.compile(
            model, args, system=described, output=output, verify=False, golden="none"
        )
        return result, small

    roomy, _ = compiled(8 * hidden)
    assert not any("chunks" in note for note in roomy.notes)
    result, small = compiled(int(0.75 * hidden))
    assert any("0 is computed in chunks of" in note for note in result.notes)
    with lemurc.load(result.path, simulate=small, strict=True) as session:
        torch.testing.assert_close(session(*args), model(*args), rtol=0, atol=1e-5)
        [device] = session.simulated
        assert device.memory is not None and device.peak_bytes <= device.memory
        predicted = session.plan.predicted["main"].memory["cpu:0"]
        assert device.peak_bytes <= 1.05 * predicted.peak
    with pytest.raises(UsageError, match="pieces either") as raised:
        compiled(hidden // 3)
    assert raised.value.code == "does-not-fit"
