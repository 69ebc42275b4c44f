"""Attention in parts, compiled for the CPU, against PyTorch's definition in float64."""

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("iree.compiler")

from lemurc.targets import registry
from lemurc.targets.compile import CompileJob, compile_jobs
from lemurc.targets.decompose_attention import decompose_attention
from lemurc.targets.guard_attention import guard_attention
from lemurc.targets.lower_to_iree import lower_to_iree

DTYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64}
TOLERANCE = {"f32": 1e-6, "f16": 2e-3, "bf16": 2e-2, "f64": 1e-13}


def attention_stage(q, k, v, mask=None, scale=None, dynamic=False) -> str:
    """A stage that is one attention over arrays like these."""
    arrays = [x for x in (q, k, v, mask) if x is not None]
    types = [_type(x, dynamic) for x in arrays]
    sizes = ["?" if dynamic else n for n in (*q.shape[:-1], v.shape[-1])]
    if dynamic:
        sizes[-1] = v.shape[-1]
    out = f"tensor<{'x'.join(map(str, sizes))}x{types[0].rpartition('x')[2]}"
    names = [f"%x{i}" for i in range(len(arrays))]
    arguments = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    attributes = f"{{scale = {scale} : f64}} " if scale else ""
    return f"""
    module @stage0 {{
      func.func @run({arguments}, %out: {out}) -> {out} {{
        %0 = tm_tensor.attention {attributes}ins({", ".join(names)} : {", ".join(types)})
          outs(%out : {out}) -> {out}
        return %0 : {out}
      }}
    }}"""


def _type(array: np.ndarray, dynamic: bool) -> str:
    names = {np.dtype(kind): name for name, kind in DTYPES.items()} | {np.dtype(bool): "i1"}
    sizes = list(array.shape)
    if dynamic:
        sizes = ["?"] * (len(sizes) - 1) + ["?" if array.dtype == bool else sizes[-1]]
    return f"tensor<{'x'.join(map(str, sizes))}x{names[array.dtype]}>"


def expected(q, k, v, mask=None, scale=None) -> np.ndarray:
    """What torch's scaled_dot_product_attention says, which gives 0 where no key is seen."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
    if mask is not None:
        hidden = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask.astype(np.float64)
        scores = scores + hidden
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ v


def compiled(stage: str) -> bytes:
    lowered = lower_to_iree(stage, select=decompose_attention)
    assert b"tm_tensor" not in lowered.bytecode
    flags = registry.get("cpu").flags("x86-64", lowered.traits)
    (module,) = compile_jobs([CompileJob("s", "cpu", "x86-64", lowered.bytecode, flags)])
    assert isinstance(module, bytes), module
    return module


def draw(dtype, *shapes):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(DTYPES[dtype]) for shape in shapes]


def check(run_module, dtype, q, k, v, mask=None, scale=None, dynamic=False):
    module = compiled(attention_stage(q, k, v, mask, scale, dynamic))
    inputs = [x for x in (q, k, v, mask) if x is not None]
    out = np.zeros((*q.shape[:-1], v.shape[-1]), q.dtype)
    (y,) = run_module(module, [*inputs, out], [], "local-sync")
    want = expected(q, k, v, mask, scale)
    np.testing.assert_allclose(y.astype(np.float64), want, rtol=0, atol=TOLERANCE[dtype] * 3)


MASKS = ("none", "bool", "float", "nothing seen")


@pytest.mark.parametrize(
    ("dtype", "mask"), [*itertools.product(["f32"], MASKS), ("f16", "bool"), ("bf16", "float")]
)
def test_masks_and_types(run_module, dtype, mask):
    q, k, v, bias = draw(dtype, (2, 5, 8), (2, 7, 8), (2, 7, 4), (2, 5, 7))
    seen = bias.astype(np.float32) < 0.3
    if mask == "nothing seen":
        seen[1, 3] = False
    given = {"none": None, "bool": seen, "float": bias, "nothing seen": seen}[mask]
    check(run_module, dtype, q, k, v, given)


def test_a_float_mask_of_minus_infinity_hides_a_row(run_module):
    q, k, v, mask = draw("f32", (1, 4, 8), (1, 6, 8), (1, 6, 8), (1, 4, 6))
    mask[0, 2] = -np.inf
    mask[0, 3, 1:] = -np.inf
    check(run_module, "f32", q, k, v, mask, scale=0.3)


def test_large_scores_do_not_overflow(run_module):
    q, k, v = draw("f16", (1, 4, 8), (1, 6, 8), (1, 6, 8))
    check(run_module, "f16", q * np.float16(100), k * np.float16(100), v)


def test_dynamic_sizes_and_more_batch_axes(run_module):
    q, k, v, mask = draw("f32", (2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8), (2, 3, 5, 7))
    check(run_module, "f32", q, k, v, mask < 0.5, dynamic=True)


def test_doubles_stay_doubles(run_module):
    check(run_module, "f64", *draw("f64", (1, 4, 8), (1, 6, 8), (1, 6, 8)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [3, 16, 17, 40])
def test_heads_of_dynamic_width(run_module, dtype, width):
    """IREE 3.13's own attention sums 16 of them."""
    q, k, v = draw(dtype, (2, 4, width), (2, 6, width), (2, 6, 8))
    text = attention_stage(q, k, v)
    for rows in ("2x4x", "2x6x"):
        text = text.replace(f"{rows}{width}x", f"{rows}?x")
    (y,) = run_module(compiled(text), [q, k, v, np.zeros((2, 4, 8), q.dtype)], [], "local-sync")
    want = expected(q, k, v)
    np.testing.assert_allclose(y.astype(float), want, rtol=0, atol=3 * TOLERANCE[dtype])


def test_only_heads_of_dynamic_width_where_the_target_fuses_attention():
    q, k, v = draw("f32", (1, 4, 24), (1, 6, 24), (1, 6, 24))
    text = attention_stage(q, k, v)

    def select(module):
        decompose_attention(module, every=False)

    assert b"tm_tensor" in lower_to_iree(text, select=select).bytecode
    text = text.replace("x24x", "x?x")
    assert b"tm_tensor" not in lower_to_iree(text, select=select).bytecode


def test_what_no_model_makes_is_left_to_iree():
    q, k, v, mask = draw("f32", (1, 4, 8), (1, 6, 8), (1, 6, 8), (1, 4, 6))
    text = attention_stage(q, k, v, mask > 0).replace("xi1>", "xi8>")
    assert b"tm_tensor" in lower_to_iree(text, select=decompose_attention).bytecode


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_fused_attention_is_guarded_where_nothing_is_seen(run_module, kind):
    q, k, v, bias = draw("f32", (2, 4, 8), (2, 6, 8), (2, 6, 8), (2, 4, 6))
    bias[1, 2] = -np.inf
    mask = bias if kind == "float" else ~np.isinf(bias)
    lowered = lower_to_iree(attention_stage(q, k, v, mask), select=guard_attention)
    assert b"tm_tensor" in lowered.bytecode
    flags = registry.get("cpu").flags("x86-64", lowered.traits)
    (module,) = compile_jobs([CompileJob("s", "cpu", "x86-64", lowered.bytecode, flags)])
    (y,) = run_module(module, [q, k, v, mask, np.zeros_like(q)], [], "local-sync")
    np.testing.assert_allclose(y, expected(q, k, v, mask), rtol=0, atol=3e-6)
