"""Profiles: what is measured, what is kept, and what it does to predictions."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import lemurc
from lemurc import profiles
from lemurc.manifest import Workload
from lemurc.profiles import DeviceKey
from lemurc.together import Group

WIDTH = 96


class Block(nn.Module):
    """Distinct operations, large enough to be told from a call."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.down(nn.functional.gelu(self.up(x))))


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("LEMURC_CACHE_DIR", str(folder))
        yield folder


def compiled(path: Path, width: int = WIDTH, rows: int = 64, **options: Any) -> Any:
    torch.manual_seed(0)
    model, args = Block(width).eval(), (torch.randn(rows, width),)
    return lemurc.compile(model, args, targets="cpu:host", output=path, verify=False, **options)


def predicted(result: Any) -> float:
    return float(result.manifest.plans[0].predicted["main"].seconds)


def test_a_profile_changes_later_predictions_on_this_machine_alone(
    tmp_path: Path, own_cache: Path
) -> None:
    before = compiled(tmp_path / "before.lemur")
    other = predicted(compiled(tmp_path / "other.lemur", 128, 48))
    assert not any("measured" in note for note in before.notes)
    result = compiled(tmp_path / "profiled.lemur", profile=True)
    assert any("timed" in note for note in result.notes)
    (path,) = (own_cache / "profiles").glob("cpu-*.json")
    stored = json.loads(path.read_text())
    assert {sample["work"]["kind"] for sample in stored["samples"]} >= {"gelu+linear", "layer_norm"}
    (stage,) = result.manifest.stages.values()
    measured = stored["stages"][stage.content]
    again = compiled(tmp_path / "again.lemur")
    assert predicted(again) == pytest.approx(measured)
    assert any("times predicted from" in note for note in again.notes)
    assert predicted(compiled(tmp_path / "other.lemur", 128, 48)) != pytest.approx(other)

    with lemurc.load(tmp_path / "again.lemur") as session:
        (step,) = session.step_times("main", session.artifact.golden("main")[0], calls=5)
    assert step.minimum > 0 and len(step.seconds) == len(step.wall) == 5
    assert all(short <= long for short, long in zip(step.seconds, step.wall, strict=True))

    system = {"devices": [{"name": "cpu", "target": "cpu", "flops": 1e9, "bandwidth": 1e9,
                           "launch": 0.0, "memory": 1 << 30}]}  # fmt: skip
    (tmp_path / "system.json").write_text(json.dumps(system))
    result = compiled(tmp_path / "planned.lemur", system=tmp_path / "system.json")
    assert predicted(result) > 2 * 2 * 64 * WIDTH * 4 * WIDTH / 1e9
    assert not any("measured" in note for note in result.notes)


def test_pieces_of_so_many_operations(tmp_path: Path) -> None:
    whole = compiled(tmp_path / "whole.lemur")
    pieces = compiled(tmp_path / "pieces.lemur", largest_stage=1)
    work = [item for stage in whole.manifest.stages.values() for item in stage.work]
    steps = pieces.manifest.plans[0].steps["main"]
    assert len(steps) == sum(item.count for item in work)
    x = torch.randn(64, WIDTH)
    with lemurc.load(whole.path) as one, lemurc.load(pieces.path) as many:
        torch.testing.assert_close(one(x), many(x))


def test_dynamic_sizes_are_not_profiled(tmp_path: Path) -> None:
    result = lemurc.compile(
        nn.Linear(8, 8), (torch.randn(4, 8),), targets="cpu:host", output=tmp_path / "d.lemur",
        dynamic_shapes=({0: torch.export.Dim("n", min=1, max=64)},), verify=False, profile=True,
    )  # fmt: skip
    assert any("its sizes vary" in note for note in result.notes)


KEY = DeviceKey("cpu", "a test", 3)
WORK = Workload("linear", "f32", 100, 10, 10, (5, 5, 2))


def test_the_least_of_several_measurements_is_kept() -> None:
    profiles.add(KEY, stages={"a": 2.0, "b": 1.0}, samples={WORK: 3.0}, call=0.5)
    profiles.add(KEY, stages={"a": 1.5, "c": 9.0}, samples={WORK: 4.0})
    slow, quick = (Group(seconds, 2, {"linear": 1.0}) for seconds in (0.9, 0.8))
    for group in (slow, quick, slow):
        profiles.add(KEY, groups={"a": group})
    kept = profiles.read("cpu", "a test", 3)
    assert kept is not None
    assert kept.stages == {"a": 1.5, "b": 1.0, "c": 9.0}
    assert [sample.seconds for sample in kept.samples] == [3.0]
    assert (kept.call, kept.groups) == (0.5, {"a": quick})
    assert 0.5 < kept.figures()["together"]["linear"] < 1


def test_threads_and_devices_are_kept_apart() -> None:
    profiles.add(KEY, stages={"a": 1.0})
    for other in (("cpu", "a test", 2), ("cpu", "another", 3), ("cuda", "a test", 3)):
        assert profiles.read(*other) is None


def test_other_code_or_a_damaged_file_is_no_profile(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = dataclasses.replace(KEY, description="damaged")
    profiles.add(key, stages={"a": 1.0})
    with monkeypatch.context() as patch:
        patch.setattr(lemurc, "__version__", "9.9")
        assert profiles.read("cpu", "damaged", 3) is None
    assert profiles.read("cpu", "damaged", 3) is not None
    for path in (own_cache / "profiles").glob("cpu-*.json"):
        path.write_text("{")
    assert profiles.read("cpu", "damaged", 3) is None


def test_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "MOST_STAGES", 3)
    key = dataclasses.replace(KEY, description="many")
    for number in range(5):
        kept = profiles.add(key, stages={str(number): 1.0})
    assert list(kept.stages) == ["2", "3", "4"]
