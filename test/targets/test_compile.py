import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("iree.compiler")

from lemurc.errors import BudgetError
from lemurc.targets import registry
from lemurc.targets.cache import Cache
from lemurc.targets.compile import CompileFailure, CompileJob, compile_jobs
from lemurc.targets.lower_to_iree import lower_to_iree

EVERY_TARGET = [
    ("cpu", "x86-64-v3"),
    ("cpu", "x86-64"),
    ("cpu", "aarch64"),
    ("cuda", "sm_80"),
    ("cuda", "sm_89"),
    ("rocm", "gfx942"),
    ("rocm", "gfx1100"),
    ("vulkan", "baseline"),
    ("vulkan", "llvmpipe"),
    ("metal", "macos"),
    ("vmvx", "generic"),
]

# the baseline has no 64-bit integers
REFUSED = """
module @stage0 {
  func.func @run(%x: tensor<4x64xi64>) -> tensor<4x64xi64> {
    %0 = arith.addi %x, %x : tensor<4x64xi64>
    return %0 : tensor<4x64xi64>
  }
}"""


def job(stage: str, target: str = "cpu", arch: str = "x86-64-v3") -> CompileJob:
    lowered = lower_to_iree(stage)
    flags = registry.get(target).flags(arch, lowered.traits)
    return CompileJob("stage0", target, arch, lowered.bytecode, flags)


def heavy_stage(chain: int = 200) -> str:
    """A chain of matmuls, each of another size: about ten seconds of code generation."""
    body = ["%s = tensor.extract %t[] : tensor<f32>", "%z = arith.constant 0.0 : f32"]
    previous = "%x"
    for k in range(16, 16 + chain):
        left, weight = f"tensor<16x{k}xf32>", f"tensor<{k}x{k + 1}xf32>"
        result = f"tensor<16x{k + 1}xf32>"
        body += [
            f"%w{k} = tensor.empty() : {weight}",
            f"%v{k} = linalg.fill ins(%s : f32) outs(%w{k} : {weight}) -> {weight}",
            f"%e{k} = tensor.empty() : {result}",
            f"%f{k} = linalg.fill ins(%z : f32) outs(%e{k} : {result}) -> {result}",
            f"%m{k} = linalg.matmul ins({previous}, %v{k} : {left}, {weight})"
            f" outs(%f{k} : {result}) -> {result}",
        ]
        previous = f"%m{k}"
    return "\n".join(
        [
            "module @stage0 {",
            f"func.func @run(%x: tensor<16x16xf32>, %t: tensor<f32>) -> {result} {{",
            *body,
            f"return {previous} : {result}",
            "} }",
        ]
    )


def compilers_below(folder: Path) -> list[int]:
    """Processes whose working directory is inside `folder`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if os.readlink(entry).startswith(str(folder)):
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize(("target", "arch"), EVERY_TARGET)
def test_every_target_compiles_a_small_stage(linear_stage, target, arch):
    (module,) = compile_jobs([job(linear_stage, target, arch)])
    assert isinstance(module, bytes), module
    (again,) = compile_jobs([job(linear_stage, target, arch)])
    assert again == module, "two builds differ"


@pytest.mark.parametrize(
    ("target", "arch", "driver"),
    [
        ("cpu", "x86-64", "local-sync"),
        ("vmvx", "generic", "local-sync"),
        pytest.param("vulkan", "llvmpipe", "vulkan", marks=pytest.mark.vulkan),
        pytest.param("vulkan", "baseline", "vulkan", marks=pytest.mark.vulkan),
    ],
)
def test_what_was_compiled_answers_right(linear_stage, run_module, target, arch, driver):
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(s).astype(np.float32) for s in ((4, 8), (16, 8), 16))
    (module,) = compile_jobs([job(linear_stage, target, arch)])
    (y,) = run_module(module, [x], [w, b], driver)
    np.testing.assert_allclose(y, x @ w.T + b, rtol=1e-5, atol=1e-5)


def test_nothing_of_the_machine_reaches_the_module(linear_stage, tmp_path, monkeypatch):
    (here,) = compile_jobs([job(linear_stage)])
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", None)
    (there,) = compile_jobs([job(linear_stage)], workers=1)
    assert there == here
    assert str(tmp_path).encode() not in here


def test_equal_jobs_compile_once_and_results_keep_their_order(linear_stage):
    seen = []
    jobs = [job(linear_stage), job(linear_stage, "vmvx", "generic"), job(linear_stage)]
    first, second, third = compile_jobs(jobs, progress=lambda *event: seen.append(event))
    assert first == third != second
    assert sorted(done for done, _, _ in seen) in ([1, 3], [2, 3])


def test_the_cache_answers_the_second_time(linear_stage, tmp_path, monkeypatch):
    cache = Cache(tmp_path)
    (first,) = compile_jobs([job(linear_stage)], cache=cache)
    monkeypatch.setattr("lemurc.targets.compile.CompilerProcess", None)
    assert compile_jobs([job(linear_stage)], cache=cache) == [first]


def test_a_refused_stage_does_not_stop_the_others(linear_stage, tmp_path, monkeypatch):
    monkeypatch.setenv("LEMURC_CACHE_DIR", str(tmp_path))
    refused, made = compile_jobs([job(REFUSED, "vulkan", "baseline"), job(linear_stage)])
    assert isinstance(made, bytes)
    assert isinstance(refused, CompileFailure)
    assert not refused.crashed
    assert "failed to legalize operation" in refused.diagnostic
    assert "stage0 for vulkan:baseline" in str(refused)
    saved = {path.name for path in Path(refused.reproducer).iterdir()}
    assert saved == {"stage.mlirbc", "log.txt", "command.sh"}


def test_a_time_limit_leaves_nothing_running(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    start = time.monotonic()
    with pytest.raises(BudgetError, match="longer than 0.5 s") as caught:
        compile_jobs([job(heavy_stage()), job(heavy_stage(199))], time_limit=0.5)
    assert time.monotonic() - start < 5
    assert caught.value.exit_status == 7
    assert compilers_below(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_a_memory_limit_leaves_nothing_running(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(BudgetError, match="more than 90 MiB"):
        compile_jobs([job(heavy_stage()), job(heavy_stage(199))], max_rss_bytes=90 << 20)
    assert compilers_below(tmp_path) == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_killed_parent_takes_its_compilers_along(tmp_path, number):
    (tmp_path / "stage.mlirbc").write_bytes(lower_to_iree(heavy_stage()).bytecode)
    script = textwrap.dedent("""
        from pathlib import Path
        from lemurc.targets.compile import CompileJob, compile_jobs
        stage = Path("stage.mlirbc").read_bytes()
        flags = ("--iree-hal-target-backends=llvm-cpu", "--iree-input-type=tm_tensor")
        compile_jobs([CompileJob("s", "cpu", "x86-64", stage, flags)])
    """)
    parent = subprocess.Popen(
        [sys.executable, "-P", "-c", script],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 20
    while len(compilers_below(tmp_path)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(compilers_below(tmp_path)) >= 2, "the compiler did not start"
    parent.send_signal(number)
    parent.wait(10)
    deadline = time.monotonic() + 5
    while compilers_below(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert compilers_below(tmp_path) == []
