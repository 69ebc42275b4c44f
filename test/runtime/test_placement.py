"""Which plan is taken, what is said about it, and what happens when a device fails."""

import dataclasses
import warnings

import numpy as np
import pytest

import lemurc
from lemurc.errors import DeviceError
from lemurc.manifest import Cost, Device, Manifest, ModuleFile, Plan, Prediction, Stage, Step
from lemurc.runtime import cpu_features, devices, placement, program, stages
from lemurc.runtime.artifact import Artifact, write
from lemurc.runtime.devices import Inventory
from lemurc.runtime.placement import LemurcWarning

X = np.ones(4, np.float32)
ADD = "%r = arith.addf %a, %b : f32"


@pytest.fixture(scope="module")
def preferring_cuda(lab, stage):
    """Plans: cuda + cpu, then cuda, then cpu; the cuda modules are not real."""
    stages = {
        "a": stage(("input:0",), ("v0",), ADD, ("w",)),
        "b": stage(("v0",), ("v1",), ADD, ("w",)),
    }
    plans = [
        {"a": "cuda:0", "b": "cpu:0"},
        {"a": "cuda:0", "b": "cuda:0"},
        {"a": "cpu:0", "b": "cpu:0"},
    ]

    def edit(manifest):
        fake = {
            name: dataclasses.replace(
                s, modules=(*s.modules, ModuleFile("cuda", "sm_80", s.modules[0].file))
            )
            for name, s in manifest.stages.items()
        }
        return dataclasses.replace(manifest, stages=fake)

    weights = {"w": np.arange(4, dtype=np.float32)}
    return lab.write("cuda", stages, plans, ["v1"], weights=weights, edit=edit)


@pytest.fixture
def no_cuda(monkeypatch):
    found = Inventory({"cpu": ("cpu:0",), "cuda": ()}, {}, {"cuda": "libcuda.so is not there"})
    monkeypatch.setattr(placement, "discover", lambda targets: found)


def test_the_next_plan_runs_with_a_warning(preferring_cuda, no_cuda):
    with pytest.warns(LemurcWarning, match=r"cuda:0, cpu:0: libcuda.so .* running on cpu:0"):
        loaded = lemurc.load(preferring_cuda)
    np.testing.assert_array_equal(loaded(X), X + 2 * np.arange(4))
    assert loaded.devices == ("cpu:0",)
    assert len(loaded.placement["main"].passed_over) == 2


def test_strict_refuses_the_next_plan(preferring_cuda, no_cuda):
    with pytest.raises(DeviceError, match="libcuda") as caught:
        lemurc.load(preferring_cuda, strict=True)
    assert caught.value.code == "plan-not-available" and caught.value.exit_status == 6


def test_asking_for_the_cpu_is_no_surprise(preferring_cuda):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with lemurc.load(preferring_cuda, devices=["cpu"]) as loaded:
            assert loaded.devices == ("cpu:0",)


@pytest.fixture(scope="module")
def needing_cuda(lab, stage):
    """One plan, for cpu and cuda; b, which is for cuda, has code for cpu too."""
    stages = {
        "a": stage(("input:0",), ("v0",), ADD, ("w",)),
        "b": stage(("v0",), ("v1",), ADD, ("w",)),
    }

    def edit(manifest):
        fake = [ModuleFile("cuda", "sm_80", manifest.stages["b"].modules[0].file)]
        both = dataclasses.replace(
            manifest.stages["b"], modules=(*manifest.stages["b"].modules, *fake)
        )
        return dataclasses.replace(manifest, stages={**manifest.stages, "b": both})

    weights = {"w": np.arange(4, dtype=np.float32)}
    plan = {"a": "cpu:0", "b": "cuda:0"}
    return lab.write("needing", stages, [plan], ["v1"], weights=weights, edit=edit)


def test_stages_go_to_a_device_that_has_code_for_them(needing_cuda, no_cuda):
    with pytest.warns(LemurcWarning, match="libcuda.so .* running on cpu:0 instead"):
        loaded = lemurc.load(needing_cuda)
    np.testing.assert_array_equal(loaded(X), X + 2 * np.arange(4))
    assert loaded.placement_line() == "cpu:0 2/2 ops; 0 crossings"
    with pytest.raises(DeviceError) as caught:
        lemurc.load(needing_cuda, strict=True)
    assert caught.value.code == "plan-not-available"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(lemurc.load(needing_cuda, devices="cpu")(X), loaded(X))


def test_stages_without_code_for_another_device_go_nowhere(preferring_cuda, no_cuda):
    with Artifact.open(preferring_cuda) as artifact:
        manifest = artifact.manifest
    for_cuda = tuple(m for m in manifest.stages["a"].modules if m.target == "cuda")
    a = dataclasses.replace(manifest.stages["a"], modules=for_cuda)
    without = dataclasses.replace(manifest, stages={**manifest.stages, "a": a})
    with pytest.raises(DeviceError) as caught:
        placement.choose(without, None)
    assert caught.value.code == "no-device"


SOFTWARE = Inventory(
    {"cpu": ("cpu:0",), "vulkan": ("vulkan:0",)}, {"vulkan:0": "llvmpipe (LLVM 15)"}, {}
)


def planned(*plans: tuple[Device, ...]) -> Manifest:
    """One stage, on the first device of each plan."""
    modules = (
        ModuleFile("cpu", cpu_features.supported_archs()[0], "c"),
        ModuleFile("vulkan", "baseline", "v"),
    )
    return Manifest(
        model="net",
        functions={},
        stages={"s0": Stage((), ("v0",), Cost(), {}, modules)},
        plans=tuple(
            Plan(devices, {"main": (Step("s0", devices[0].name),)}, {}) for devices in plans
        ),
    )


CPU, VULKAN = Device("cpu", "cpu"), Device("vulkan", "vulkan")


def test_software_comes_last() -> None:
    choice = placement.choose(planned((VULKAN,), (CPU,)), None, inventory=SOFTWARE)
    assert choice.bound == {"cpu": "cpu:0"}
    (reason,) = choice.passed_over
    assert "vulkan:0 (llvmpipe (LLVM 15)) is software" in reason


def test_software_that_the_user_pinned_comes_first() -> None:
    pinned = dataclasses.replace(VULKAN, asked=True)
    choice = placement.choose(planned((pinned, CPU), (CPU,)), None, inventory=SOFTWARE)
    assert (choice.bound, choice.passed_over) == ({"vulkan": "vulkan:0", "cpu": "cpu:0"}, ())


def test_no_warning_when_software_is_all_there_is() -> None:
    choice = placement.choose(planned((VULKAN,)), None, inventory=SOFTWARE)
    assert (choice.bound, choice.passed_over) == ({"vulkan": "vulkan:0"}, ())
    cuda = Device("cuda", "cuda")
    choice = placement.choose(planned((cuda,), (VULKAN,)), None, inventory=SOFTWARE)
    assert choice.passed_over == ("the plan for cuda: cuda:0 is not here, only no cuda",)


def test_what_stands_in_the_way_of_the_device_asked_for() -> None:
    plans = planned((VULKAN,), (CPU,))
    failed = frozenset({"vulkan:0"})
    with pytest.raises(DeviceError) as caught:
        placement.choose(plans, ["vulkan"], failed, inventory=SOFTWARE)
    assert "the plan for vulkan: vulkan:0 failed" in str(caught.value)
    assert "software" not in str(caught.value)
    assert caught.value.hint == "without devices=['vulkan'] it runs on cpu:0"


def test_no_device_at_all(preferring_cuda, no_cuda):
    with pytest.raises(DeviceError) as caught:
        lemurc.load(preferring_cuda, devices=["cuda:0"])
    message = str(caught.value)
    assert caught.value.code == "no-device"
    for word in ("compiled for cuda, cpu", "found cpu:0", "libcuda.so is not there", "runs on cpu"):
        assert word in message


def test_unknown_device(adder):
    with pytest.raises(DeviceError) as caught:
        lemurc.load(adder, devices=["cpx"])
    assert caught.value.code == "unknown-device"


def test_devices_can_be_numbered(two_plans, adder):
    with lemurc.load(two_plans, devices="cpu:1") as loaded:
        assert loaded.devices == ("cpu:1",)
        np.testing.assert_array_equal(loaded(X), X)
    with lemurc.load(two_plans, devices=["cpu:1", "cpu:0"]) as loaded:
        assert loaded.devices == ("cpu:1", "cpu:0")
    for path, name, there in ((adder, "cpu:7", "cpu:0"), (two_plans, "cpu:2", "cpu:0, cpu:1")):
        with pytest.raises(DeviceError, match=f"no device {name} for .*, only {there}") as caught:
            lemurc.load(path, devices=[name])
        assert caught.value.code == "no-device"


def test_plans_may_name_their_devices_freely(lab, stage):
    stages = {
        "a": stage(("input:0", "input:0"), ("v0",), ADD),
        "b": stage(("v0", "input:0"), ("v1",), ADD),
    }

    def edit(manifest):
        plan = manifest.plans[0]
        named = tuple(Device(device.name, "cpu") for device in plan.devices)
        return dataclasses.replace(manifest, plans=(dataclasses.replace(plan, devices=named),))

    path = lab.write("names", stages, [{"a": "cpu", "b": "little"}], ["v1"], edit=edit)
    with lemurc.load(path) as loaded:
        assert loaded.devices == ("cpu:0", "cpu:1")
        np.testing.assert_array_equal(loaded(X), 3 * X)


@pytest.mark.parametrize(
    "archs, taken",
    [
        (("x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64"), "x86-64-v3"),
        (("x86-64-v2", "x86-64"), "x86-64"),
    ],
)
def test_the_best_module_this_cpu_can_run(lab, stage, archs, taken):
    add = stage(("input:0",), ("v0",), ADD, ("w",))

    def edit(manifest):
        base = manifest.stages["s"].modules[0]
        modules = (base, dataclasses.replace(base, arch="x86-64-v3"))
        stages = {"s": dataclasses.replace(manifest.stages["s"], modules=modules)}
        return dataclasses.replace(manifest, stages=stages)

    weights = {"w": np.arange(4, dtype=np.float32)}
    path = lab.write("archs", {"s": add}, [{"s": "cpu:0"}], ["v0"], weights=weights, edit=edit)
    with cpu_features.override(archs), lemurc.load(path) as loaded:
        assert loaded.placement["main"].devices[0].archs == (taken,)
    with cpu_features.override(("aarch64",)), pytest.raises(DeviceError, match="x86-64-v3"):
        lemurc.load(path)


def test_placement_line(lab, stage):
    stages = {
        "a": stage(("input:0",), ("v0",), ADD, ("w",)),
        "b": stage(("v0",), ("v1",), ADD, ("w",)),
    }

    def edit(manifest):
        ops = {"a": {"linear": 390, "norm": 1}, "b": {"sort": 3, "topk": 1, "p": 9, "q": 8}}
        described = {n: dataclasses.replace(s, ops=ops[n]) for n, s in manifest.stages.items()}
        prediction = Prediction(1.0, 12_000_000, 4, {"cpu:0": 0.96, "cpu:1": 0.04})
        plan = dataclasses.replace(manifest.plans[0], predicted={"main": prediction})
        return dataclasses.replace(manifest, stages=described, plans=(plan,))

    weights = {"w": np.arange(4, dtype=np.float32)}
    plan = {"a": "cpu:0", "b": "cpu:1"}
    path = lab.write("line", stages, [plan], ["v1"], weights=weights, edit=edit)
    with lemurc.load(path) as loaded:
        assert loaded.placement_line() == (
            "cpu:0 391/412 ops, 96% of predicted time; "
            "cpu:1 21 ops (p x9, q x8, sort x3, ...); 4 crossings, 12 MB"
        )


@pytest.fixture(scope="module")
def two_plans(lab, stage):
    stages = {
        "a": stage(("input:0", "state:total"), ("v0",), ADD),
        "b": stage(("v0",), ("v1",), ADD, ("w",)),
    }
    weights = {"w": np.zeros(4, np.float32), "total": np.zeros(4, np.float32)}
    plans = [{"a": "cpu:0", "b": "cpu:1"}, {"a": "cpu:0", "b": "cpu:0"}]
    return lab.write(
        "two-plans", stages, plans, ["v1"], weights=weights, state_updates={"total": "v0"}
    )


def test_a_device_lost_in_a_call(two_plans, monkeypatch):
    with lemurc.load(two_plans) as loaded:
        loaded(X)
        original = program.Program.run

        def run(self, arrays, state, on_device, issue):
            if len(self.devices) == 2:
                raise DeviceError("it is lost", code="device-lost", where="cpu:1")
            return original(self, arrays, state, on_device)

        monkeypatch.setattr(program.Program, "run", run)
        with pytest.warns(LemurcWarning, match="it is lost") as caught:
            y = loaded(X)
        assert caught[0].filename == __file__, "the line that called is named"
        np.testing.assert_array_equal(y, 2 * X)
        assert loaded.devices == ("cpu:0",)
        np.testing.assert_array_equal(loaded(X), 3 * X)


def test_a_device_lost_in_a_strict_session(two_plans, monkeypatch):
    with lemurc.load(two_plans, strict=True) as loaded:

        def run(self, arrays, state, on_device, issue):
            raise DeviceError("it is lost", code="device-lost", where="cpu:1")

        monkeypatch.setattr(program.Program, "run", run)
        with pytest.raises(DeviceError, match="it is lost"):
            loaded(X)


def test_a_device_that_cannot_load_its_stages(two_plans, monkeypatch):
    original = stages.StageExecutor

    def load(artifact, name, stage, module, device):
        if device.name == "cpu:1":
            raise DeviceError("no memory", code="out-of-memory", where="cpu:1")
        return original(artifact, name, stage, module, device)

    monkeypatch.setattr(stages, "StageExecutor", load)
    with pytest.warns(LemurcWarning, match="no memory") as caught:
        loaded = lemurc.load(two_plans)
    assert caught[0].filename == __file__, "the line that loaded is named"
    np.testing.assert_array_equal(loaded(X), X)
    with pytest.raises(DeviceError, match="no memory"):
        lemurc.load(two_plans, strict=True)


def test_iree_errors_are_not_raw(lab, stage, edit_function):
    """A manifest that lies about a shape reaches IREE's own check."""

    def lie(manifest):
        wrong = dataclasses.replace(manifest.functions["main"].inputs[0], shape=(5,))
        return edit_function(manifest, inputs=(wrong,))

    weights = {"w": np.arange(4, dtype=np.float32)}
    add = stage(("input:0",), ("v0",), ADD, ("w",))
    path = lab.write("lie", {"s": add}, [{"s": "cpu:0"}], ["v0"], weights=weights, edit=lie)
    with lemurc.load(path) as loaded, pytest.raises(lemurc.LemurcError) as caught:
        loaded(np.ones(5, np.float32))
    assert caught.value.__cause__ is not None
    assert ".c:" not in caught.value.message


def test_a_module_for_other_hardware(lab, stage):
    weights = {"w": np.arange(4, dtype=np.float32)}
    add = stage(("input:0",), ("v0",), ADD, ("w",))
    path = lab.write("garbage", {"s": add}, [{"s": "cpu:0"}], ["v0"], weights=weights)
    with Artifact.open(path) as artifact:
        manifest = artifact.manifest
    bad = path.with_name("garbage2.lemur")
    write(bad, manifest, {"modules/s.cpu.vmfb": b"not a module" * 100}, weights)
    with pytest.raises(lemurc.LemurcError) as caught:
        lemurc.load(bad)
    assert "stage s" in caught.value.message


def test_missing_drivers_are_remembered_not_raised():
    found = devices.discover()
    assert found.names["cpu"] == ("cpu:0",)
    for target in devices.DRIVERS:
        assert found.names[target] or found.why_not[target]
    with pytest.raises(DeviceError):
        devices.open_device("cuda:99")


def test_cpu_archs_are_best_first_and_read_from_flags(monkeypatch):
    v3 = "abm avx avx2 bmi1 bmi2 f16c fma movbe cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3"
    monkeypatch.setattr(cpu_features.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(cpu_features, "_cpu_flags", lambda: frozenset(v3.split()))
    assert cpu_features.supported_archs() == ("x86-64-v3", "x86-64-v2", "x86-64")
    monkeypatch.setattr(cpu_features, "_cpu_flags", frozenset)
    assert cpu_features.supported_archs() == ("x86-64",)
    monkeypatch.setattr(cpu_features.platform, "machine", lambda: "arm64")
    assert cpu_features.supported_archs() == ("aarch64",)


def test_tiny_graphs_run_in_the_calling_thread(lab, stage):
    def edit(manifest):
        cheap = dataclasses.replace(manifest.stages["s"], cost=Cost(4, 16, 16, 16))
        return dataclasses.replace(manifest, stages={"s": cheap})

    weights = {"w": np.arange(4, dtype=np.float32)}
    add = stage(("input:0",), ("v0",), ADD, ("w",))
    path = lab.write("tiny", {"s": add}, [{"s": "cpu:0"}], ["v0"], weights=weights, edit=edit)
    with lemurc.load(path) as loaded:
        assert "sync" in repr(loaded.open_devices[0].hal)
        np.testing.assert_array_equal(loaded(X), X + np.arange(4))


def test_several_functions_share_weights_and_state(lab, stage):
    stages = {
        "p": stage(("input:0", "state:total"), ("v0",), ADD),
        "d": stage(("input:0",), ("v0",), "%r = arith.mulf %a, %b : f32", ("w",)),
    }

    def edit(manifest):
        main = dataclasses.replace(manifest.functions["main"], results=("v0",))
        plan = Plan(
            (Device("cpu:0", "cpu"),),
            {"prefill": (Step("p", "cpu:0"),), "decode": (Step("d", "cpu:0"),)},
            {},
        )
        functions = {
            "prefill": main,
            "decode": dataclasses.replace(main, state_updates={}),
        }
        return dataclasses.replace(manifest, functions=functions, plans=(plan,))

    weights = {"w": np.full(4, 3, np.float32), "total": np.zeros(4, np.float32)}
    path = lab.write(
        "entries", stages, [{"p": "cpu:0"}], ["v0"],
        weights=weights, state_updates={"total": "v0"}, edit=edit,
    )  # fmt: skip
    with lemurc.load(path) as loaded:
        assert loaded.functions == ("prefill", "decode") or set(loaded.functions) == {
            "prefill",
            "decode",
        }
        np.testing.assert_array_equal(loaded.prefill(X), X)
        np.testing.assert_array_equal(loaded.decode(X), 3 * X)
        np.testing.assert_array_equal(loaded.prefill(X), 2 * X)
        with pytest.raises(lemurc.LemurcError, match="main"):
            loaded(X)
        assert "cpu:0" in loaded.placement_line()
