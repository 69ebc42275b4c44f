"""Orders for little memory, by what the device's allocator counts; benchmarks/peak_memory.py in
small."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def benchmark_() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
        return importlib.import_module("peak_memory")


@pytest.mark.parametrize(
    ("name", "less"), [("experts", 0.5), ("heads", 0.5), ("inception", 0.15), ("randwire", 0.15)]
)
def test_branches_need_less_in_another_order(
    benchmark_: ModuleType, name: str, less: float
) -> None:
    row = benchmark_.compared(name, scale=2)
    assert row["less"] >= less
    assert row["memory"] <= 1.05 * row["planned"]
    assert row["bound"] <= row["planned"]


def test_a_chain_is_at_the_bound_and_left_alone(benchmark_: ModuleType) -> None:
    row = benchmark_.compared("encoder", scale=2)
    assert row["planned"] == row["bound"]
    assert row["memory"] == row["program"] <= 1.05 * row["planned"]
