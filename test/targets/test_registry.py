from importlib import metadata

import pytest

from lemurc.errors import UsageError
from lemurc.targets import registry, vulkan
from lemurc.targets.base import Architecture, DeviceModel, Target
from lemurc.targets.cpu import host_architecture

V3 = frozenset(
    "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3 avx avx2 bmi1 bmi2 f16c fma abm movbe xsave".split()
)


def test_a_list_names_targets_and_architectures():
    requests = registry.parse_targets("cpu:v3, CUDA:sm_80+sm_89,rocm:gfx942+gfx1100")
    assert [(request.target.name, request.archs) for request in requests] == [
        ("cpu", ("x86-64-v3",)),
        ("cuda", ("sm_80", "sm_89")),
        ("rocm", ("gfx942", "gfx1100")),
    ]


def test_a_bare_name_means_the_defaults():
    cpu, cuda, rocm = registry.parse_targets("cpu,cuda,rocm")
    assert cpu.archs == ("x86-64-v3", "x86-64")
    assert cuda.archs == ("sm_80",)
    assert rocm.archs == ("gfx90a", "gfx942", "gfx1100")


def test_one_target_named_twice_is_one_request():
    (request,) = registry.parse_targets("cuda:sm_80,nvidia:sm_89+a100")
    assert request.archs == ("sm_80", "sm_89")


def test_an_architecture_iree_does_not_know_is_mapped_and_that_is_said():
    (request,) = registry.parse_targets("cuda:sm_90")
    assert request.archs == ("sm_89",)
    assert "sm_90" in request.notes[0] and "sm_89" in request.notes[0]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("cdua", "did you mean 'cuda'?"),
        ("cuda:sm_8", "did you mean 'sm_8"),
        ("cuda:sm80", "did you mean 'sm_80'?"),
        ("fpga", "known targets: cpu"),
        ("rocm:x", "known architectures: gfx90a"),
        ("", "try --targets cpu"),
    ],
)
def test_what_is_unknown_gets_a_hint(text, hint):
    with pytest.raises(UsageError) as caught:
        registry.parse_targets(text)
    assert hint in caught.value.hint


def test_host_is_the_best_level_the_features_allow():
    assert host_architecture(V3) == "x86-64-v3"
    assert host_architecture(V3 - {"fma"}) == "x86-64-v2"
    assert host_architecture(frozenset()) == "x86-64"


def test_cpu_host_is_said_to_be_what_it_is():
    (request,) = registry.parse_targets("cpu:host")
    assert request.archs == (host_architecture(),)
    assert host_architecture() in request.notes[0]


def test_vulkan_legality_is_that_of_the_least_able_architecture():
    target = registry.get("vulkan")
    assert "i64" in target.illegal_types_of(["llvmpipe", "baseline"])
    assert "i64" not in target.illegal_types_of(["llvmpipe"])
    assert vulkan.architecture_of("llvmpipe (LLVM 15.0.6, 256 bits)") == "llvmpipe"
    assert vulkan.architecture_of("a GPU of tomorrow") == "baseline"


def test_names_and_aliases_are_unique():
    known = registry.targets()
    names = [n for target in known.values() for n in (target.name, *target.aliases)]
    assert len(set(names)) == len(names)
    for target in known.values():
        archs = [n for arch in target.architectures for n in (arch.name, *arch.aliases)]
        archs += target.same_as
        assert len(set(archs)) == len(archs), target.name


def test_a_package_adds_a_target(monkeypatch):
    model = DeviceModel({"f32": 1.0}, 1.0, 1.0, 1)
    toy = Target("toy", "vmvx", "local-task", (Architecture("one", ()),), ("one",), model)

    class Point:
        name, value, dist = "toy", "toy:TARGET", None

        def load(self):
            return toy

    monkeypatch.setattr(metadata, "entry_points", lambda group: [Point()])
    (request,) = registry.parse_targets("toy")
    assert request.target is toy


def test_an_entry_point_that_is_no_target_is_named(monkeypatch):
    class Point:
        name, value, dist = "toy", "toy:TARGET", None

        def load(self):
            return 1

    monkeypatch.setattr(metadata, "entry_points", lambda group: [Point()])
    with pytest.raises(UsageError, match="'toy' is a int"):
        registry.get("toy")
    assert "toy" not in registry.targets() and "toy" in registry.broken()
