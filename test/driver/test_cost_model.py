"""The formula of docs/cost-model.md, and what measured operations change."""

from dataclasses import replace

import pytest

from lemurc.cost_model import Figures, Sample, correction, roofline, seconds, stage_seconds
from lemurc.manifest import Workload
from lemurc.together import Group, together

DEVICE = Figures(
    flops={"f32": 1e9, "f16": 4e9}, bandwidth={"f32": 1e8}, launch=1e-3, call=1e-2, tile=(8, 16)
)
PRODUCT = Workload("linear", "f32", 2 * 64**3, 64 * 64, 0, (64, 64, 64))
COPY = Workload("copy", "f32", 0, 1 << 20, 1 << 20)


def sample(work: Workload, factor: float, device: Figures = DEVICE) -> Sample:
    """`work` as it would be measured where it takes `factor` of the formula's time."""
    taken = factor * roofline(work, device) + device.launch
    return Sample(work, taken)


def test_arithmetic_or_memory_whichever_is_longer() -> None:
    assert seconds(PRODUCT, DEVICE) == pytest.approx(2 * 64**3 / 1e9 + 1e-3)
    assert seconds(COPY, DEVICE) == pytest.approx((2 << 20) / 1e8 + 1e-3)


def test_a_type_has_its_own_rate_or_that_of_f32() -> None:
    assert roofline(replace(PRODUCT, dtype="f16"), DEVICE) == pytest.approx(2 * 64**3 / 4e9)
    assert roofline(replace(PRODUCT, dtype="bf16"), DEVICE) == roofline(PRODUCT, DEVICE)


def test_tiles_that_are_not_full_cost_as_if_they_were() -> None:
    narrow = Workload("linear", "f32", 2 * 9 * 64 * 64, 1, 0, (9, 64, 64))
    whole = Workload("linear", "f32", 2 * 16 * 64 * 64, 1, 0, (16, 64, 64))
    assert roofline(narrow, DEVICE) == pytest.approx(roofline(whole, DEVICE))


def test_a_stage_adds_up_and_pays_one_call() -> None:
    work = (replace(PRODUCT, count=3), COPY)
    expected = 3 * seconds(PRODUCT, DEVICE) + seconds(COPY, DEVICE) + 1e-2
    assert stage_seconds(work, DEVICE) == pytest.approx(expected)


def test_operations_in_company_take_what_their_kind_does() -> None:
    known = replace(DEVICE, together={"*": 0.5, COPY.kind: 2.0})
    assert stage_seconds([PRODUCT], known) == pytest.approx(stage_seconds([PRODUCT], DEVICE))
    works = [replace(PRODUCT, count=3), COPY]
    shown = 1 - 1 / 4
    expected = (1 - 0.5 * shown) * 3 * seconds(PRODUCT, DEVICE) + (1 + shown) * seconds(
        COPY, DEVICE
    )
    assert stage_seconds(works, known) - 1e-2 == pytest.approx(expected)


def test_kinds_are_told_apart_over_many_stages() -> None:
    true = {"conv": 1.2, "gelu": 0.4, "linear": 1.0}
    groups = []
    for conv, gelu, linear in ((5, 1, 1), (1, 4, 1), (1, 1, 6), (3, 3, 0), (0, 2, 5), (9, 0, 2)):
        alone = {"conv": conv * 1e-3, "gelu": gelu * 1e-3, "linear": linear * 1e-3}
        count = conv + gelu + linear
        gain = {kind: 1 + (1 - 1 / count) * (share - 1) for kind, share in true.items()}
        groups.append(Group(sum(gain[k] * alone[k] for k in alone), count, alone))
    found = together(groups)
    assert {kind: found[kind] for kind in true} == pytest.approx(true, abs=0.05)
    assert 0.4 < found["*"] < 1.2


def test_one_stage_says_little_and_none_nothing() -> None:
    (group,) = [Group(0.9e-3, 10, {"a": 0.5e-3, "b": 0.5e-3})]
    assert together([group]) == pytest.approx({"*": 0.89, "a": 0.89, "b": 0.89}, abs=0.05)
    assert together([]) == together([Group(1.0, 1, {"a": 2.0})]) == {}


def test_a_slowed_device_takes_that_many_times_as_long() -> None:
    slow = replace(DEVICE, slowdown=4.0)
    assert stage_seconds([PRODUCT], slow) == pytest.approx(4 * stage_seconds([PRODUCT], DEVICE))


def test_what_was_measured_is_predicted() -> None:
    known = replace(DEVICE, samples=(sample(PRODUCT, 3.0), sample(COPY, 0.5)))
    assert seconds(PRODUCT, known) == pytest.approx(known.samples[0].seconds, rel=0.02)
    assert seconds(COPY, known) == pytest.approx(known.samples[1].seconds, rel=0.02)


def test_another_size_is_corrected_as_the_nearest_of_its_kind() -> None:
    large = Workload("linear", "f32", 2 * 512**3, 3 * 512 * 512 * 4, 0, (512, 512, 512))
    known = replace(DEVICE, samples=(sample(PRODUCT, 3.0), sample(large, 2.0)))
    near_small = Workload("linear", "f32", 2 * 80**3, 3 * 80 * 80 * 4, 0, (80, 80, 80))
    near_large = Workload("linear", "f32", 2 * 448**3, 3 * 448 * 448 * 4, 0, (448, 448, 448))
    assert 2.5 < correction(near_small, known) < 3.0
    assert 2.0 < correction(near_large, known) < 2.5


def test_kinds_and_types_do_not_mix_where_they_were_measured() -> None:
    known = replace(DEVICE, samples=(sample(PRODUCT, 3.0), sample(COPY, 0.5)))
    assert correction(replace(COPY, bytes_read=1 << 16), known) == pytest.approx(0.5)
    assert correction(replace(PRODUCT, dtype="f16"), known) == 1.0


def test_an_unmeasured_kind_is_corrected_as_what_is_like_it() -> None:
    known = replace(DEVICE, samples=(sample(PRODUCT, 3.0), sample(COPY, 0.5)))
    assert correction(replace(PRODUCT, kind="conv"), known) == pytest.approx(3.0)
    assert correction(replace(COPY, kind="transpose"), known) == pytest.approx(0.5)
