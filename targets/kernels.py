"""How composites call the kernels in cpu/kernels/*.c: operands, sizes, division of work.

Each function answers None when the kernel does not do that composite. Shapes are
static f32; memory is contiguous, so a kernel sees rows and columns, not ranks.
"""

from math import prod

from lemurc.targets.composite import Composite, is_static_f32, weight_in_layout, weight_name
from lemurc.targets.kernel_call import KernelCall

_ROW_TILE, _PANEL = 6, 16
"""TILE_ROWS and TILE_COLUMNS of kernels/gemm.h."""

_ELEMENTWISE_SHARE = 16384
"""Floats a workgroup should have at least, to be worth handing out."""


def gelu(found: Composite) -> KernelCall | None:
    if not activation(found):
        return None
    count = prod(found.result_shape())
    share = _round_up(max(_ELEMENTWISE_SHARE, -(-count // 32)), 16)
    groups = (-(-count // share),)
    (x,) = found.call.operands
    return KernelCall("gelu", (x,), found.call.results[0].type, (count, share), groups)


def activation(found: Composite) -> int:
    """The number kernels/linear.c gives this activation; 0 when it has none."""
    return 2 if found.kind == "gelu" and found.attributes.get("approximate") == "none" else 0


def layer_norm(found: Composite) -> KernelCall | None:
    given, shape = found.operands(), found.result_shape()
    outer = len(shape) - int(found.attributes.get("normalized_rank", 1))
    rows, n = prod(shape[:outer]), prod(shape[outer:])
    share = max(1, -(-rows // 32), _ELEMENTWISE_SHARE // n)
    x = given["input"]
    # An absent weight is passed as the input and not read.
    operands = (x, given.get("weight", x), given.get("bias", x))
    flags = (int("weight" in given), int("bias" in given))
    scalars = (float(found.attributes["eps"]), rows, n, *flags, share)
    groups = (-(-rows // share),)
    return KernelCall("layer_norm", operands, found.call.results[0].type, scalars, groups)


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
    panels, tiles = _divide(-(-n // _PANEL), -(-m // _ROW_TILE))
    groups = (-(-n // (_PANEL * panels)), -(-m // (_ROW_TILE * tiles)))
    scalars = (m, n, k, int(bias is not None), activation, panels, tiles)
    layout = "panels16_transposed" if transposed else "panels16"
    packed = weight_in_layout(weight, layout, [-(-n // _PANEL), k, _PANEL])
    operands = (x, packed, bias if bias is not None else x)
    return KernelCall("linear", operands, found.call.results[0].type, scalars, groups)


def conv(found: Composite) -> KernelCall | None:
    """A plain convolution of images; the artifact stores its weight in groups of filters."""
    given, attributes = found.operands(), found.attributes
    x, weight = given["input"], given["weight"]
    if len(x.type.shape) != 4 or attributes.get("transposed") or attributes.get("groups") != 1:
        return None
    if weight_name(weight) is None:
        return None
    images, channels, height, width = x.type.shape
    filters, _, kernel_h, kernel_w = weight.type.shape
    out_height, out_width = found.result_shape()[2:]
    bias = given.get("bias")
    all_panels, all_tiles = -(-out_height * out_width // _PANEL), -(-filters // _ROW_TILE)
    panels = min(8, _round_up(-(-all_panels // 8), 2))
    # Where there are few panels of pixels, the filters are divided too.
    tiles = -(-all_tiles // max(1, min(all_tiles, 8 // -(-all_panels // panels))))
    sizes = (channels, height, width, filters, out_height, out_width, kernel_h, kernel_w)
    steps = (*attributes["stride"], *attributes["padding"], *attributes["dilation"])
    scalars = (*sizes, *steps, int(bias is not None), 0, panels, tiles)
    groups = (
        -(-all_panels // panels),
        -(-all_tiles // tiles),
        images,
    )
    depth = channels * kernel_h * kernel_w
    grouped = weight_in_layout(weight, "rows6", [all_tiles, depth, _ROW_TILE])
    operands = (x, grouped, bias if bias is not None else x)
    return KernelCall("conv", operands, found.call.results[0].type, scalars, groups)


def _divide(panels: int, tiles: int) -> tuple[int, int]:
    """Panels and row tiles per workgroup: eight panels fit the cache beside the rows.

    Few panels are made up for by cutting the rows, so that there are eight workgroups
    or so to share out.
    """
    wide = min(panels, 8)
    row_groups = max(1, min(8 // -(-panels // wide), tiles))
    return wide, -(-tiles // row_groups)


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
