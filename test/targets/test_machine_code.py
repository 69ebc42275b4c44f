"""GPU code is checked without a GPU: by NVIDIA's assembler, by ELF headers, by its text."""

import subprocess

import pytest

pytest.importorskip("iree.compiler")

from lemurc.targets import registry
from lemurc.targets.compile import CompileJob, compile_jobs
from lemurc.targets.lower_to_iree import lower_to_iree
from lemurc.targets.machine_code import (
    amdgpu_architectures,
    find_ptxas,
    ptx,
    ptx_architecture,
    uses_matrix_units,
)

HALF_MATMUL = """
module @stage0 {
  func.func @run(%a: tensor<256x256xf16>, %b: tensor<256x256xf16>) -> tensor<256x256xf32> {
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<256x256xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<256x256xf32>) -> tensor<256x256xf32>
    %m = linalg.matmul ins(%a, %b : tensor<256x256xf16>, tensor<256x256xf16>)
      outs(%f : tensor<256x256xf32>) -> tensor<256x256xf32>
    return %m : tensor<256x256xf32>
  }
}"""


def compiled(stage: str, target: str, arch: str, *extra: str) -> bytes:
    lowered = lower_to_iree(stage)
    flags = registry.get(target).flags(arch, lowered.traits)
    (module,) = compile_jobs([CompileJob("s", target, arch, lowered.bytecode, (*flags, *extra))])
    assert isinstance(module, bytes), module
    return module


@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
def test_ptx_is_for_the_architecture_asked_for(linear_stage, arch):
    (text,) = ptx(compiled(linear_stage, "cuda", arch))
    assert ptx_architecture(text) == arch


@pytest.mark.parametrize(("arch", "newer"), [("sm_80", "sm_90"), ("sm_89", "sm_100")])
@pytest.mark.parametrize("stage", ["linear", "half"])
def test_ptxas_takes_the_ptx(linear_stage, tmp_path, stage, arch, newer):
    ptxas = find_ptxas()
    if ptxas is None:
        pytest.skip("no ptxas: install nvidia-cuda-nvcc")
    (text,) = ptx(compiled(linear_stage if stage == "linear" else HALF_MATMUL, "cuda", arch))
    (tmp_path / "a.ptx").write_text(text)
    for chip in (arch, newer):
        command = [ptxas, f"-arch={chip}", "a.ptx", "-o", "a.cubin"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100"])
def test_code_objects_are_for_the_architecture_asked_for(linear_stage, arch):
    assert amdgpu_architectures(compiled(linear_stage, "rocm", arch)) == [arch]


@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
def test_half_matmuls_use_tensor_cores(arch):
    (text,) = ptx(compiled(HALF_MATMUL, "cuda", arch))
    assert uses_matrix_units(text)


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100"])
def test_half_matmuls_use_matrix_instructions(tmp_path, arch):
    compiled(HALF_MATMUL, "rocm", arch, f"--iree-hal-dump-executable-files-to={tmp_path}")
    (assembly,) = tmp_path.glob("*.rocmasm")
    assert uses_matrix_units(assembly.read_text())


def test_plain_arithmetic_does_not():
    assert not uses_matrix_units("fma.rn.f32 %f1, %f2, %f3, %f4;\nv_fma_f32 v0, v1, v2, v3\n")
