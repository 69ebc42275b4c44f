"""Whole models compiled for GPUs that are not here: is the code real, and is it fast code?

NVIDIA's assembler takes every PTX; AMD code objects say in their ELF header what they are
for; half precision multiplies on matrix units.
"""

import functools
import json
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import lemurc
from lemurc.compiler import CompileResult
from lemurc.runtime.artifact import Artifact
from lemurc.targets import registry
from lemurc.targets.base import StageTraits
from lemurc.targets.compile import CompileJob, compile_jobs
from lemurc.targets.machine_code import (
    amdgpu_architectures,
    find_ptxas,
    ptx,
    ptx_architecture,
    uses_matrix_units,
)

TARGETS = "cuda:sm_80+sm_89,rocm:gfx942+gfx1100"
CUDA, ROCM = ("sm_80", "sm_89"), ("gfx942", "gfx1100")


MODELS = ("bert", "resnet18")
HALVES = "bert in halves"

Compiled = tuple[CompileResult, Path]
"""The result, and the folder with the IR of its stages."""


@pytest.fixture(scope="module")
def compiled(
    zoo: ModuleType, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Compiled]:
    @functools.cache
    def compile_once(name: str) -> Compiled:
        folder = tmp_path_factory.mktemp("gpu")
        model, args = zoo.ZOO["bert" if name == HALVES else name]()
        if name == HALVES:
            model = model.half()
        output, temps = folder / "x.lemur", folder / "temps"
        result = lemurc.compile(model, args, targets=TARGETS, output=output, save_temps=temps)
        return result, temps

    return compile_once


def modules(result: CompileResult, target: str) -> list[tuple[str, bytes]]:
    """(architecture, bytes) of every module for `target`."""
    with Artifact.open(result.path) as artifact:
        return [
            (file.arch, bytes(artifact.entry(file.file)))
            for stage in result.manifest.stages.values()
            for file in stage.modules
            if file.target == target
        ]


@pytest.mark.parametrize("name", [*MODELS, HALVES])
def test_every_stage_has_code_for_every_architecture(name: str, compiled: Any) -> None:
    result, _ = compiled(name)
    wanted = {*(("cuda", arch) for arch in CUDA), *(("rocm", arch) for arch in ROCM)}
    for stage in result.manifest.stages.values():
        assert {(file.target, file.arch) for file in stage.modules} == wanted
    assert {verdict.target for verdict in result.verdicts} == {"cuda", "rocm"}
    assert {verdict.status for verdict in result.verdicts} <= {"verified", "not run"}


@pytest.mark.parametrize("name", [*MODELS, HALVES])
@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="NVIDIA's assembler is a test requirement on this platform only",
)
def test_ptxas_takes_all_of_it(name: str, compiled: Any, tmp_path: Path) -> None:
    result, _ = compiled(name)
    ptxas = find_ptxas()
    assert ptxas is not None, "pip install nvidia-cuda-nvcc==13.0.88"
    found = [(arch, text) for arch, module in modules(result, "cuda") for text in ptx(module)]
    assert {arch for arch, _ in found} == set(CUDA)
    for number, (arch, text) in enumerate(found):
        assert ptx_architecture(text) == arch
        source = tmp_path / f"{number}.ptx"
        source.write_text(text)
        command = [ptxas, f"-arch={arch}", source, "-o", tmp_path / "x.cubin"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", [*MODELS, HALVES])
def test_code_objects_are_for_their_architecture(name: str, compiled: Any) -> None:
    result, _ = compiled(name)
    found = modules(result, "rocm")
    assert {arch for arch, _ in found} == set(ROCM)
    for arch, module in found:
        assert set(amdgpu_architectures(module)) == {arch}


def assembly(result: CompileResult, temps: Path, arch: str, folder: Path) -> str:
    """PTX from the artifact, or what IREE writes when it compiles the same stages again."""
    if arch in CUDA:
        return "\n".join(t for a, m in modules(result, "cuda") if a == arch for t in ptx(m))
    jobs = []
    for name, stage in json.loads((temps / "response.json").read_text())["stages"].items():
        for ir in (ir for ir in stage["ir"] if ir["arch"] == arch):
            traits = StageTraits(**ir["traits"])
            flags = registry.get("rocm").flags(arch, traits)
            flags += (f"--iree-hal-dump-executable-files-to={folder}",)
            jobs.append(CompileJob(name, "rocm", arch, (temps / ir["file"]).read_bytes(), flags))
    assert all(isinstance(module, bytes) for module in compile_jobs(jobs))
    return "\n".join(path.read_text() for path in sorted(folder.glob("*.rocmasm")))


@pytest.mark.parametrize("arch", [*CUDA, *ROCM])
def test_halves_multiply_on_matrix_units(compiled: Any, arch: str, tmp_path: Path) -> None:
    functions = functions_of(assembly(*compiled(HALVES), arch, tmp_path))
    # The pooler has two rows only: no tile of a matrix unit.
    products = {n: text for n, text in functions.items() if "matmul" in n and "x16x" in n}
    assert products
    assert all(uses_matrix_units(text) for text in products.values()), products.keys()


def functions_of(text: str) -> dict[str, str]:
    """Name -> body, of PTX or AMD assembly."""
    found: dict[str, list[str]] = {}
    body: list[str] = []
    for line in text.splitlines():
        start = line.partition(".entry ")[2].partition("(")[0] if ".entry " in line else ""
        if not start and line.startswith("run_dispatch") and line.split()[0].endswith(":"):
            start = line.split()[0].removesuffix(":")
        if start:
            body = found.setdefault(start, [])
        body.append(line)
    return {name: "\n".join(lines) for name, lines in found.items()}
