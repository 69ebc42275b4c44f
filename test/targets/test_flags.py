from lemurc.targets import registry
from lemurc.targets.base import CAREFUL_FLAGS, StageTraits


def test_cpu_flags_follow_what_the_stage_holds():
    cpu = registry.get("cpu")
    plain = cpu.flags("x86-64-v3")
    linear = cpu.flags("x86-64-v3", StageTraits({"linear": 4}))
    conv = cpu.flags("x86-64-v3", StageTraits({"conv": 2}))
    assert "--iree-opt-data-tiling" not in plain
    assert set(plain) < set(linear) < set(conv)
    assert "--iree-global-opt-use-im2col-for-convs" in conv
    careful = cpu.flags("x86-64-v3", StageTraits({"conv": 2}), tuned=False)
    assert careful == (*plain, *CAREFUL_FLAGS)


def test_operands_are_packed_only_where_iree_does_it_well():
    flags = registry.get("cpu").flags
    packing = "--iree-opt-data-tiling"
    for arch, traits, packs in (
        ("x86-64-v3", StageTraits({"linear": 1}, dynamic=True), True),
        ("x86-64-v3", StageTraits({"linear": 1, "attention": 1}), True),
        ("x86-64-v3", StageTraits({"linear": 1, "attention": 1}, dynamic=True), False),
        ("x86-64-v3", StageTraits({"conv": 1}, dynamic=True), False),
        ("x86-64-v3", StageTraits({"matmul": 1}, dynamic=True, dynamic_batches=True), False),
        ("x86-64", StageTraits({"linear": 1}), False),
        ("x86-64-v2", StageTraits({"conv": 1}), False),
    ):
        assert (packing in flags(arch, traits)) is packs, (arch, traits)


def test_doubles_stay_doubles_and_constants_iree_cannot_inline_are_not():
    for target in registry.targets().values():
        arch = target.architectures[0].name
        assert "--iree-input-demote-f64-to-f32=false" in target.flags(arch)
        wide = target.flags(arch, StageTraits(wide_resources=True))
        assert "--iree-flow-inline-constants-max-byte-length=0" in wide


def test_a_device_entry_says_what_the_planner_needs():
    entry = registry.get("vulkan").system_device("vulkan:0", ["baseline"])
    assert entry["name"] == "vulkan:0"
    assert entry["target"] == "vulkan"
    assert "i64" in entry["illegal_types"]
    keys = ("flops", "bandwidth", "launch", "memory", "illegal_kinds")
    assert all(key in entry for key in keys)
