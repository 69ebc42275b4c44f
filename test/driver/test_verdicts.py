"""Every target asked for gets a verdict, and limits are named as the user set them."""

import inspect
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import lemurc
from lemurc.child import interrupts_held, run_module
from lemurc.errors import BudgetError, UnsupportedModelError
from lemurc.targets import compile as targets_compile
from lemurc.targets.base import CAREFUL_FLAGS
from lemurc.targets.compile import CompileFailure

DIAGNOSTIC = "failed to legalize operation 'vector.broadcast' " + "that is long " * 30


class Squares(torch.nn.Module):
    """On 64-bit integers, which portable Vulkan lacks."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x + 1


class Linear(torch.nn.Linear):
    """Its operations have a line of this file."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input)


LINE = inspect.getsourcelines(Linear)[1] + 4


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
        Linear(4, 4),
        (torch.ones(1, 4),),
        targets="cpu:host,vulkan:baseline",
        output=tmp_path / "x.lemur",
        verify=verify,
    )
    statuses = {verdict.target: verdict.status for verdict in result.verdicts}
    assert statuses == {"vulkan": "not compiled"} | ({"cpu": "verified"} if verify else {})
    detail = result.verdicts[-1].detail
    assert detail == f"IREE refuses it (test_verdicts.py:{LINE})"
    (note,) = [note for note in result.notes if "cannot be compiled" in note]
    assert note.startswith("stage s0 (linear) cannot be compiled for vulkan:baseline: IREE refuses")
    assert "legalize" not in note


class Gelu(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x)


NO_ERF = "failed to legalize operation 'math.erf': %5 = math.erf %4 : (f32) -> f32"


def test_what_iree_cannot_compile_is_said_with_the_users_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        targets_compile,
        "compile_jobs",
        lambda jobs, **options: [CompileFailure(job, False, NO_ERF, "it") for job in jobs],
    )
    with pytest.raises(UnsupportedModelError) as caught:
        lemurc.compile(Gelu(), (torch.ones(4),), targets="vmvx", output=tmp_path / "x.lemur")
    line = inspect.getsourcelines(Gelu)[1] + 2
    assert caught.value.code == "code-generation"
    assert f"IREE has no erf of f32 there (test_verdicts.py:{line})" in caught.value.message
    assert "%" not in caught.value.message


def refuse_tuning(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """Has the compiler crash on every stage for `target` with anything but careful flags."""
    real = targets_compile.compile_jobs

    def compile_jobs(jobs: Any, **options: Any) -> list[Any]:
        made = real(jobs, **options)
        for at, job in enumerate(jobs):
            if job.target == target and not set(CAREFUL_FLAGS) <= set(job.flags):
                made[at] = CompileFailure(job, True, DIAGNOSTIC, "reproducer")
        return made

    monkeypatch.setattr(targets_compile, "compile_jobs", compile_jobs)


@pytest.fixture
def tuning_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_tuning(monkeypatch, "cpu")


def test_a_step_down_is_noted(tmp_path: Path, tuning_refused: None) -> None:
    model, example = Linear(4, 4), (torch.ones(1, 4),)
    result = lemurc.compile(model, example, targets="cpu:x86-64", output=tmp_path / "x.lemur")
    note = result.notes[0]
    assert note.startswith("stage s0 (linear) for cpu:x86-64 stepped down to plain flags")
    assert f"IREE crashes on it (test_verdicts.py:{LINE})" in note
    assert "legalize" not in note


def test_under_strict_a_step_down_is_an_error(tmp_path: Path, tuning_refused: None) -> None:
    model, example, path = Linear(4, 4), (torch.ones(1, 4),), tmp_path / "x.lemur"
    with pytest.raises(UnsupportedModelError, match="stepped down") as caught:
        lemurc.compile(model, example, output=path, strict=True)
    assert caught.value.code == "stepped-down"
    assert not path.exists()


def test_what_is_compiled_for_verification_alone_may_step_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_tuning(monkeypatch, "cpu")
    model, example, path = Linear(4, 4), (torch.ones(1, 4),), tmp_path / "x.lemur"
    result = lemurc.compile(model, example, targets="cuda", output=path, strict=True)
    assert result.notes == []


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


@pytest.mark.vulkan
def test_the_plan_says_which_devices_were_pinned(tmp_path: Path) -> None:
    result = lemurc.compile(
        torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Softmax(-1)),
        (torch.ones(1, 4),),
        targets="cpu:host,vulkan:baseline",
        pins=("0=vulkan",),
        output=tmp_path / "x.lemur",
        verify=False,
    )
    asked = {device.name: device.asked for device in result.manifest.plans[0].devices}
    assert asked["vulkan"] and not asked.get("cpu", False)
    assert all(
        not d.asked for plan in result.manifest.plans for d in plan.devices if d.name == "cpu"
    )


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
        run_module("timeit", tmp_path, error_file="error.json", time_limit=0.0, budget=30)


def test_what_is_too_slow_is_verified_on_the_cpu(tmp_path: Path) -> None:
    model = torch.nn.Linear(1024, 2048)
    args = (torch.randn(256, 1024),)
    result = lemurc.compile(model, args, targets="vmvx", output=tmp_path / "x.lemur")
    (verdict,) = result.verdicts
    assert verdict.status == "not run"
    assert verdict.detail == "VMVX is too slow for 1.1e+09 operations; program verified on cpu"


@pytest.mark.skipif(sys.platform != "linux", reason="sends signals")
def test_interrupts_wait_for_the_end_of_a_start():
    reached = []
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        reached.append(True)
    assert reached
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
