import math

import numpy as np
import pytest

pytest.importorskip("iree.compiler")

from lemurc.targets import registry
from lemurc.targets.compile import CompileJob, compile_jobs
from lemurc.targets.cpu import host_architecture, library
from lemurc.targets.layouts import in_layout
from lemurc.targets.lower_to_iree import lower_to_iree
from lemurc.targets.select_kernels import SelectKernels

ARCH = "x86-64-v3"

STAGE = """
module @stage0 {
  func.func @run(%x: tensor<3x5x7xf32>, %w: tensor<7xf32> {lemur.param = "w"})
      -> tensor<3x5x7xf32> {
    %0 = "func.call"(%x, %w) <{callee = @norm, no_inline}>
      : (tensor<3x5x7xf32>, tensor<7xf32>) -> tensor<3x5x7xf32>
    %1 = "func.call"(%0) <{callee = @gelu_0, no_inline}> : (tensor<3x5x7xf32>) -> tensor<3x5x7xf32>
    %2 = "func.call"(%1) <{callee = @gelu_1, no_inline}> : (tensor<3x5x7xf32>) -> tensor<3x5x7xf32>
    return %2 : tensor<3x5x7xf32>
  }
  func.func private @norm(%x: tensor<3x5x7xf32>, %w: tensor<7xf32>) -> tensor<3x5x7xf32>
      attributes {lemur.composite = "layer_norm", lemur.operands = ["input", "weight"],
                  lemur.eps = 1.0e-5 : f64, lemur.normalized_rank = 1 : i64, no_inline} {
    return %x : tensor<3x5x7xf32>
  }
  func.func private @gelu_0(%x: tensor<3x5x7xf32>) -> tensor<3x5x7xf32>
      attributes {lemur.composite = "gelu", lemur.approximate = "none", no_inline} {
    return %x : tensor<3x5x7xf32>
  }
  func.func private @gelu_1(%x: tensor<3x5x7xf32>) -> tensor<3x5x7xf32>
      attributes {lemur.composite = "gelu", lemur.approximate = "none", no_inline} {
    return %x : tensor<3x5x7xf32>
  }
}"""

needs_bitcode = pytest.mark.skipif(
    library.bitcode(ARCH, "gelu") is None, reason="installed without the kernel library"
)


def used(stage: str, arch: str = ARCH) -> dict[str, int]:
    kernels = SelectKernels(arch)
    lower_to_iree(stage, select=kernels.run)
    return dict(kernels.used)


@needs_bitcode
@pytest.mark.skipif(host_architecture() not in (ARCH, "x86-64-v4"), reason="needs AVX2")
def test_kernels_answer_like_the_reference(run_module):
    kernels = SelectKernels(ARCH)
    lowered = lower_to_iree(STAGE, select=kernels.run)
    assert kernels.used == {"layer_norm": 1, "gelu": 2}
    flags = registry.get("cpu").flags(ARCH, lowered.traits)
    (module,) = compile_jobs([CompileJob("s", "cpu", ARCH, lowered.bytecode, flags)])
    assert isinstance(module, bytes), module
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 5, 7), (7,)))
    (y,) = run_module(module, [x], [w], "local-sync")
    centred = x - x.mean(-1, keepdims=True, dtype=np.float64)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w
    for _ in range(2):
        expected = expected * (1 + np.vectorize(math.erf)(expected / math.sqrt(2))) / 2
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


@needs_bitcode
def test_equal_shapes_share_one_executable():
    lowered = lower_to_iree(STAGE, select=SelectKernels(ARCH).run)
    assert lowered.bytecode.count(b"kernel_gelu_1") == 1
    assert b"kernel_gelu_2" not in lowered.bytecode
    assert lowered.traits.composites == {}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('lemur.approximate = "none"', 'lemur.approximate = "tanh"'),
        ("3x5x7xf32", "3x5x7xf16"),
        ("3x5x7xf32", "?x5x7xf32"),
        ('lemur.composite = "gelu", ', ""),
    ],
)
def test_what_no_kernel_does_keeps_its_reference(old, new):
    assert "gelu" not in used(STAGE.replace(old, new))


def test_other_architectures_have_no_kernels():
    assert used(STAGE, "x86-64") == {}
    assert used(STAGE, "aarch64") == {}


def test_without_bitcode_a_stage_compiles_as_before(monkeypatch):
    monkeypatch.setattr(library, "bitcode", lambda arch, kernel: None)
    assert used(STAGE) == {}


def product_stage(kind: str, weight: str, uses: int = 1) -> str:
    """x @ weight + bias, then GELU; `uses` readers of the product."""
    roles = {"linear": "input weight bias", "matmul": "a b bias"}[kind].split()
    named = ", ".join(f'"{role}"' for role in roles)
    shapes = f"(tensor<2x5x33xf32>, tensor<{weight}xf32>, tensor<20xf32>) -> tensor<2x5x20xf32>"
    result = "%1, %0" if uses == 2 else "%1"
    types = ", ".join(["tensor<2x5x20xf32>"] * uses)
    return f"""
    module @stage0 {{
      func.func @run(%x: tensor<2x5x33xf32>, %w: tensor<{weight}xf32> {{lemur.param = "w"}},
                     %b: tensor<20xf32> {{lemur.param = "b"}}) -> ({types}) {{
        %0 = "func.call"(%x, %w, %b) <{{callee = @product, no_inline}}> : {shapes}
        %1 = "func.call"(%0) <{{callee = @gelu, no_inline}}>
          : (tensor<2x5x20xf32>) -> tensor<2x5x20xf32>
        return {result} : {types}
      }}
      func.func private @product(%x: tensor<2x5x33xf32>, %w: tensor<{weight}xf32>,
                                 %b: tensor<20xf32>) -> tensor<2x5x20xf32>
          attributes {{lemur.composite = "{kind}", lemur.operands = [{named}], no_inline}} {{
        %0 = tensor.empty() : tensor<2x5x20xf32>
        return %0 : tensor<2x5x20xf32>
      }}
      func.func private @gelu(%x: tensor<2x5x20xf32>) -> tensor<2x5x20xf32>
          attributes {{lemur.composite = "gelu", lemur.approximate = "none", no_inline}} {{
        return %x : tensor<2x5x20xf32>
      }}
    }}"""


@needs_bitcode
@pytest.mark.skipif(host_architecture() not in (ARCH, "x86-64-v4"), reason="needs AVX2")
@pytest.mark.parametrize(("kind", "weight"), [("linear", "20x33"), ("matmul", "33x20")])
@pytest.mark.parametrize("uses", [1, 2])
def test_a_product_with_a_weight(run_module, kind, weight, uses):
    kernels = SelectKernels(ARCH)
    lowered = lower_to_iree(product_stage(kind, weight, uses), select=kernels.run)
    assert kernels.used == ({"linear": 1} if uses == 1 else {"linear": 1, "gelu": 1})
    layout = "panels16" if kind == "linear" else "panels16_transposed"
    assert lowered.parameters == ("b", f"w@{layout}")
    flags = registry.get("cpu").flags(ARCH, lowered.traits)
    (module,) = compile_jobs([CompileJob("s", "cpu", ARCH, lowered.bytecode, flags)])
    assert isinstance(module, bytes), module
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(s).astype(np.float32) for s in ((2, 5, 33), (20, 33), 20))
    weights = {"w": w if kind == "linear" else np.ascontiguousarray(w.T), "b": b}
    given = [in_layout(weights, name) for name in lowered.parameters]
    y = run_module(module, [x], given, "local-sync", uses)
    product = x.astype(np.float64) @ w.T + b
    activated = product * (1 + np.vectorize(math.erf)(product / math.sqrt(2))) / 2
    np.testing.assert_allclose(y[0], activated, rtol=1e-5, atol=1e-5)
    if uses == 2:
        np.testing.assert_allclose(y[1], product, rtol=1e-5, atol=1e-5)


def conv_stage(
    groups: int = 1, transposed: str = "false", stride: int = 2, channels: int = 3, filters: int = 7
) -> str:
    out = 8 // stride + 1
    x, w = f"tensor<2x{channels}x9x9xf32>", f"tensor<{filters}x{channels // groups}x3x3xf32>"
    y = f"tensor<2x{filters}x{out}x{out}xf32>"
    return f"""
    module @stage0 {{
      func.func @run(%x: {x}, %w: {w} {{lemur.param = "w"}}) -> {y} {{
        %0 = "func.call"(%x, %w) <{{callee = @conv, no_inline}}> : ({x}, {w}) -> {y}
        return %0 : {y}
      }}
      func.func private @conv(%x: {x}, %w: {w}) -> {y}
          attributes {{lemur.composite = "conv", lemur.operands = ["input", "weight"],
                      lemur.stride = array<i64: {stride}, {stride}>,
                      lemur.padding = array<i64: 1, 1>,
                      lemur.dilation = array<i64: 1, 1>, lemur.groups = {groups} : i64,
                      lemur.transposed = {transposed}, no_inline}} {{
        %0 = tensor.empty() : {y}
        return %0 : {y}
      }}
    }}"""


@needs_bitcode
@pytest.mark.skipif(host_architecture() not in (ARCH, "x86-64-v4"), reason="needs AVX2")
@pytest.mark.parametrize(
    ("stride", "channels", "filters", "parameters"),
    [(2, 3, 7, ("w@rows6",)), (1, 3, 7, ("w@rows6",)), (1, 17, 35, ("w@panels16",))],
)
def test_a_convolution(run_module, stride, channels, filters, parameters):
    stage = conv_stage(stride=stride, channels=channels, filters=filters)
    lowered = lower_to_iree(stage, select=SelectKernels(ARCH).run)
    assert lowered.parameters == parameters
    flags = registry.get("cpu").flags(ARCH, lowered.traits)
    (module,) = compile_jobs([CompileJob("s", "cpu", ARCH, lowered.bytecode, flags)])
    assert isinstance(module, bytes), module
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, channels, 9, 9)).astype(np.float32)
    w = rng.standard_normal((filters, channels, 3, 3)).astype(np.float32)
    given = [in_layout({"w": w}, name) for name in parameters]
    (y,) = run_module(module, [x], given, "local-sync")
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    exact = np.einsum("nchwij,fcij->nfhw", windows[:, :, ::stride, ::stride], w)
    np.testing.assert_allclose(y, exact, rtol=1e-4, atol=5e-5)


@needs_bitcode
def test_a_group_for_each_channel():
    assert used(conv_stage(groups=3, filters=6)) == {"depthwise": 1}


def test_grouped_and_transposed_convolutions_keep_their_reference():
    assert used(conv_stage(groups=2, channels=4)) == {}
    assert used(conv_stage(transposed="true")) == {}
