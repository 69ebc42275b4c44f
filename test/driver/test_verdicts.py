"""Every target asked for gets a verdict, and limits are named as the user set them."""

from pathlib import Path
from typing import Any

import pytest
import torch

import lemurc
from lemurc.child import run_module
from lemurc.errors import BudgetError
from lemurc.targets import compile as targets_compile
from lemurc.targets.compile import CompileFailure

DIAGNOSTIC = "failed to legalize operation 'arith.constant' " + "that is long " * 30


class Squares(torch.nn.Module):
    """On 64-bit integers, which portable Vulkan lacks."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x + 1


@pytest.fixture
def vulkan_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    real = targets_compile.compile_jobs

    def compile_jobs(jobs: Any, **options: Any) -> list[Any]:
        made = real([job for job in jobs if job.target != "vulkan"], **options)
        return [
            CompileFailure(job, False, DIAGNOSTIC, "reproducer")
            if job.target == "vulkan"
            else made.pop(0)
            for job in jobs
        ]

    monkeypatch.setattr(targets_compile, "compile_jobs", compile_jobs)


@pytest.mark.parametrize("verify", [True, False])
def test_a_target_iree_refuses(verify: bool, tmp_path: Path, vulkan_refused: None) -> None:
    result = lemurc.compile(
        torch.nn.Linear(4, 4),
        (torch.ones(1, 4),),
        targets="cpu:host,vulkan:baseline",
        output=tmp_path / "x.lemur",
        verify=verify,
    )
    statuses = {verdict.target: verdict.status for verdict in result.verdicts}
    assert statuses == {"vulkan": "not compiled"} | ({"cpu": "verified"} if verify else {})
    detail = result.verdicts[-1].detail
    assert detail.startswith("IREE refused it: failed to legalize") and len(detail) <= 120


def test_a_target_that_cannot_hold_the_model(tmp_path: Path) -> None:
    result = lemurc.compile(
        Squares(),
        (torch.arange(4),),
        targets="cpu:host,vulkan:baseline",
        output=tmp_path / "x.lemur",
    )
    cpu, vulkan = result.verdicts
    assert (cpu.target, cpu.status) == ("cpu", "verified")
    assert (vulkan.target, vulkan.status) == ("vulkan", "not compiled")
    assert "i64" in vulkan.detail


def test_an_absent_gpu_is_said_in_few_words(tmp_path: Path) -> None:
    result = lemurc.compile(
        torch.nn.Linear(4, 4), (torch.ones(1, 4),), targets="cuda", output=tmp_path / "x.lemur"
    )
    (verdict,) = result.verdicts
    if verdict.status == "verified":
        pytest.skip("there is a CUDA device here")
    assert verdict.status == "not run"
    assert verdict.detail.startswith("no device: ")
    assert verdict.detail.endswith("; program verified on cpu")
    assert "UNAVAILABLE" not in verdict.detail and len(verdict.detail) < 100


def test_the_whole_budget_is_named(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="compiling took longer than 30 s"):
        run_module("timeit", tmp_path, error_file="error.json", time_limit=0.01, budget=30)


def test_what_is_too_slow_is_verified_on_the_cpu(tmp_path: Path) -> None:
    model = torch.nn.Linear(1024, 2048)
    args = (torch.randn(256, 1024),)
    result = lemurc.compile(model, args, targets="vmvx", output=tmp_path / "x.lemur")
    (verdict,) = result.verdicts
    assert verdict.status == "not run"
    assert verdict.detail == "VMVX is too slow for 1.1e+09 operations; program verified on cpu"
