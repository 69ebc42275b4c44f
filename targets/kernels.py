"""How composites call the kernels in cpu/kernels/*.c: operands, sizes, division of work.

Each function answers None when the kernel does not do that composite. Shapes are
static f32; memory is contiguous, so a kernel sees rows and columns, not ranks.
"""

from math import prod
from typing import Any

from lemurc.targets.composite import (
    Composite,
    additive_mask,
    is_static_f32,
    weight_in_layout,
    weight_name,
)
from lemurc.targets.kernel_call import KernelCall

ROW_TILE, PANEL = 6, 16
"""TILE_ROWS and TILE_COLUMNS of kernels/gemm.h."""

_ELEMENTWISE_SHARE = 16384
"""Floats a workgroup should have at least, to be worth handing out."""


def gelu(found: Composite) -> KernelCall | None:
    return _elementwise("gelu", found) if activation(found) else None


def silu(found: Composite) -> KernelCall:
    return _elementwise("silu", found)


def _elementwise(kernel: str, found: Composite) -> KernelCall:
    count = prod(found.result_shape())
    share = round_up(max(_ELEMENTWISE_SHARE, -(-count // 32)), 16)
    groups = (-(-count // share),)
    (x,) = found.call.operands
    return KernelCall(kernel, (x,), found.call.results[0].type, (count, share), groups)


def activation(found: Composite) -> int:
    """The number kernels/linear.c gives this activation; 0 when it has none."""
    return 2 if found.kind == "gelu" and found.attributes.get("approximate") == "none" else 0


def layer_norm(found: Composite) -> KernelCall:
    given = found.operands()
    rows, n = _rows(found)
    x = given["input"]
    # An absent weight is passed as the input and not read.
    operands = (x, given.get("weight", x), given.get("bias", x))
    flags = (int("weight" in given), int("bias" in given))
    return _by_rows(
        "layer_norm", found, operands, (float(found.attributes["eps"]), rows, n, *flags)
    )


def rms_norm(found: Composite) -> KernelCall | None:
    given = found.operands()
    if "eps" not in found.attributes:
        return None
    rows, n = _rows(found)
    operands = (given["input"], given.get("weight", given["input"]))
    scalars = (float(found.attributes["eps"]), rows, n, int("weight" in given))
    return _by_rows("rms_norm", found, operands, scalars)


def _rows(found: Composite) -> tuple[int, int]:
    """How many rows are normalized, and how long one is."""
    shape = found.result_shape()
    outer = len(shape) - int(found.attributes.get("normalized_rank", 1))
    return prod(shape[:outer]), prod(shape[outer:])


def softmax(found: Composite) -> KernelCall | None:
    """Over the last dimension."""
    shape = found.result_shape()
    if not shape or found.attributes["dim"] != len(shape) - 1:
        return None
    return _by_rows("softmax", found, tuple(found.call.operands), (prod(shape[:-1]), shape[-1]))


def _by_rows(
    kernel: str, found: Composite, operands: tuple[Any, ...], scalars: tuple[float, ...]
) -> KernelCall:
    """A call whose workgroups have so many rows each, the last scalar."""
    rows, n = _rows(found)
    share = max(1, -(-rows // 32), _ELEMENTWISE_SHARE // max(n, 1))
    result = found.call.results[0].type
    return KernelCall(kernel, operands, result, (*scalars, share), (-(-rows // share),))


def linear(found: Composite, activation: int = 0) -> KernelCall | None:
    """A product with a weight, which the artifact stores in panels."""
    given = found.operands()
    transposed = found.kind == "matmul"
    x, weight = (given["a"], given["b"]) if transposed else (given["input"], given["weight"])
    bias = given.get("bias")
    if len(weight.type.shape) != 2 or weight_name(weight) is None or len(x.type.shape) < 1:
        return None
    k, n = reversed(weight.type.shape) if not transposed else weight.type.shape
    m = prod(x.type.shape[:-1])
    if bias is not None and (not is_static_f32(bias.type) or list(bias.type.shape) != [n]):
        return None
    panels, tiles = _divide(-(-n // PANEL), -(-m // ROW_TILE))
    groups = (-(-n // (PANEL * panels)), -(-m // (ROW_TILE * tiles)))
    scalars = (m, n, k, int(bias is not None), activation, panels, tiles)
    layout = "panels16_transposed" if transposed else "panels16"
    packed = weight_in_layout(weight, layout, [-(-n // PANEL), k, PANEL])
    operands = (x, packed, bias if bias is not None else x)
    return KernelCall("linear", operands, found.call.results[0].type, scalars, groups)


_WIDEST_HEAD = 128
"""MOST_WIDTH of kernels/attention.c; its MOST_ROWS is twice the rows used here."""


def attention(found: Composite) -> KernelCall | None:
    """Attention over [batch, heads, length, width]; a mask of any broadcast shape."""
    given, causal = found.operands(), bool(found.attributes.get("causal"))
    q, k, v, mask = (given.get(role) for role in ("query", "key", "value", "mask"))
    if q is None or k is None or v is None or (causal and mask is not None):
        return None
    if not all(is_static_f32(x.type) and len(x.type.shape) == 4 for x in (q, k, v)):
        return None
    batch, heads, queries, width = q.type.shape
    kv_batch, kv_heads, keys, _ = k.type.shape
    v_width = v.type.shape[3]
    grouped = heads != kv_heads
    if max(width, v_width) > _WIDEST_HEAD or kv_batch != batch or heads % kv_heads:
        return None
    if list(v.type.shape[:3]) != [batch, kv_heads, keys] or grouped != bool(
        found.attributes.get("grouped")
    ):
        return None
    steps, masked = (0, 0, 0), mask is not None
    if masked:
        mask = additive_mask(mask)
        if mask is None or not (steps_ := _mask_steps(mask, (batch, heads, queries, keys))):
            return None
        steps = steps_
    rows = min(48, round_up(-(-queries // max(1, 8 // (batch * heads))), ROW_TILE))
    scale = float(found.attributes.get("scale", width**-0.5))
    sizes = (heads, kv_heads, queries, keys, width, v_width)
    scalars = (scale, *sizes, int(causal), int(masked), *steps, rows)
    groups = (batch * heads, -(-queries // rows))
    operands = (q, k, v, mask if masked else q)
    return KernelCall("attention", operands, found.call.results[0].type, scalars, groups)


def _mask_steps(mask: Any, full: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Floats from one batch, head and query of the mask to the next: 0 where it is shared."""
    shape = [1] * (4 - len(mask.type.shape)) + list(mask.type.shape)
    if shape[3] != full[3] or any(
        n not in (1, whole) for n, whole in zip(shape, full, strict=True)
    ):
        return None
    sizes = [prod(shape[axis + 1 :]) for axis in range(3)]
    batch, head, query = (0 if shape[axis] == 1 else sizes[axis] for axis in range(3))
    return batch, head, query


def _divide(panels: int, tiles: int) -> tuple[int, int]:
    """Panels and row tiles per workgroup: eight panels fit the cache beside the rows.

    Few panels are made up for by cutting the rows, so that there are eight workgroups
    or so to share out.
    """
    wide = min(panels, 8)
    row_groups = max(1, min(8 // -(-panels // wide), tiles))
    return wide, -(-tiles // row_groups)


def round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
