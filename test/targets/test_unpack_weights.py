"""Architectures without kernels read what kernels have packed."""

import numpy as np
import pytest

pytest.importorskip("iree.compiler")

from lemurc.targets import registry
from lemurc.targets.compile import CompileJob, compile_jobs
from lemurc.targets.layouts import in_layout
from lemurc.targets.lower_to_iree import lower_to_iree
from lemurc.targets.unpack_weights import UnpackWeights, packed_names


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        ("panels16", (20, 33)),
        ("panels16", (32, 5)),
        ("panels16", (20, 3, 3, 3)),
        ("panels16_transposed", (33, 20)),
        ("rows6", (7, 3, 2, 2)),
        ("rows6", (12, 4)),
    ],
)
def test_packing_is_undone(run_module, layout, shape):
    kind = f"tensor<{'x'.join(map(str, shape))}xf32>"
    stage = f"""
    module @stage0 {{
      func.func @run(%x: {kind}, %w: {kind} {{lemur.param = "w"}}) -> {kind} {{
        %0 = arith.addf %x, %w : {kind}
        return %0 : {kind}
      }}
    }}"""
    lowered = lower_to_iree(stage, select=UnpackWeights((f"w@{layout}",)).run)
    assert lowered.parameters == (f"w@{layout}",)
    flags = registry.get("cpu").flags("x86-64", lowered.traits)
    (module,) = compile_jobs([CompileJob("s", "cpu", "x86-64", lowered.bytecode, flags)])
    assert isinstance(module, bytes), module
    x, w = np.random.default_rng(0).standard_normal((2, *shape)).astype(np.float32)
    packed = in_layout({"w": w}, f"w@{layout}")
    np.testing.assert_array_equal(run_module(module, [x], [packed], "local-sync")[0], x + w)


def test_what_is_packed():
    assert packed_names(("a", "b@rows6", "c", "c@panels16")) == ("b@rows6",)
