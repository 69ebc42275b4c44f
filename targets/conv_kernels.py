"""How convolutions call the kernels in cpu/kernels: which one, sizes, division of work."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lemurc.targets import winograd
from lemurc.targets.composite import Composite, weight_in_layout, weight_name
from lemurc.targets.kernel_call import KernelCall
from lemurc.targets.kernels import PANEL, ROW_TILE, round_up


@dataclass(frozen=True)
class Layer:
    """A convolution of images in NCHW with a weight [filters, channels of a group, h, w]."""

    x: Any
    weight: Any
    bias: Any | None
    result: Any
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]

    @property
    def images(self) -> int:
        return int(self.x.type.shape[0])

    def sizes(self) -> tuple[int, ...]:
        """Channels, height and width of an image; filters, height and width of its result."""
        return (*self.x.type.shape[1:], *self.result.type.shape[1:])

    def steps(self) -> tuple[int, ...]:
        """Height and width of the kernel; then strides, padding and dilation."""
        return (*self.weight.type.shape[2:], *self.stride, *self.padding, *self.dilation)

    def bias_or_any(self) -> Any:
        """A kernel that is told of no bias does not read it."""
        return self.x if self.bias is None else self.bias


def conv(found: Composite) -> KernelCall | None:
    given, attributes = found.operands(), found.attributes
    x, weight = given["input"], given["weight"]
    if len(x.type.shape) != 4 or attributes.get("transposed"):
        return None
    steps = (attributes[name] for name in ("stride", "padding", "dilation"))
    layer = Layer(x, weight, given.get("bias"), found.call.results[0], *steps)
    groups = attributes.get("groups")
    if groups == x.type.shape[1] and groups > 1:
        return _depthwise(layer)
    if groups != 1 or weight_name(weight) is None:
        return None
    return _winograd(layer) or _implicit_gemm(layer)


_PIXELS = 65536
"""Of the result, which a workgroup should have at least."""


def _depthwise(layer: Layer) -> KernelCall:
    _, _, _, filters, out_height, out_width = layer.sizes()
    planes = layer.images * filters
    share = max(-(-planes // 32), min(-(-planes // 2), -(-_PIXELS // (out_height * out_width))))
    scalars = (planes, *layer.sizes(), *layer.steps(), int(layer.bias is not None), 0, share)
    operands = (layer.x, layer.weight, layer.bias_or_any())
    return KernelCall("depthwise", operands, layer.result.type, scalars, (-(-planes // share),))


_FEWEST = 16
"""Channels and filters from which on Winograd's transforms are worth it."""

_MOST_LANES = 16
"""MOST_LANES of kernels/winograd.h."""


def _winograd(layer: Layer) -> KernelCall | None:
    """3x3 with stride 1: the image cut in tiles and transformed, then the products."""
    channels, height, width, filters, out_height, out_width = layer.sizes()
    steps = ([*layer.stride], [*layer.dilation], layer.weight.type.shape[2:])
    if steps != ([1, 1], [1, 1], [3, 3]) or min(channels, filters) < _FEWEST:
        return None
    m = winograd.tile_size(channels, out_height, out_width)
    columns = -(-out_width // m)
    tiles = -(-out_height // m) * columns
    # Whole rows of tiles where they fit, else two runs of seven, which the kernel takes at once.
    chunk = min(tiles, _MOST_LANES // columns * columns or 14)
    chunks, all_panels = -(-tiles // chunk), -(-filters // PANEL)
    image, place = (channels, height, width), (out_height, out_width, *layer.padding, m)
    share = -(-channels // max(1, min(8 // chunks, channels // 16)))
    tiled = KernelCall(
        "winograd_input",
        (layer.x,),
        _tensor([layer.images, chunks, (m + 2) ** 2, channels + 1, round_up(chunk, 4)]),
        (*image, *place, chunk, share),
        (-(-channels // share), chunks, layer.images),
    )
    panels = round_up(-(-all_panels * chunks // 8), 2) if chunks < 8 else round_up(all_panels, 2)
    packed = weight_in_layout(layer.weight, "panels16", [all_panels, channels * 9, PANEL])
    return KernelCall(
        "winograd",
        (tiled, packed, layer.x, layer.bias_or_any()),
        layer.result.type,
        (*image, filters, *place, int(layer.bias is not None), 0, chunk, panels),
        (-(-all_panels // panels), chunks, layer.images),
    )


def _tensor(shape: list[int]) -> Any:
    from iree.compiler import ir

    return ir.RankedTensorType.get(shape, ir.F32Type.get())


_WIDEST = 8
"""PANEL of kernels/conv.c, in panels of 16 pixels."""

_WORKGROUPS = 8
"""As many as there should be of an image, for threads to share."""


def _implicit_gemm(layer: Layer) -> KernelCall:
    """The artifact stores the weight in groups of filters."""
    channels, _, _, filters, out_height, out_width = layer.sizes()
    kernel_h, kernel_w = layer.weight.type.shape[2:]
    all_panels, all_tiles = -(-out_height * out_width // PANEL), -(-filters // ROW_TILE)
    parts = -(-all_panels // _WIDEST)
    panels = -(-all_panels // parts)
    # Where there are few panels of pixels, the filters are divided too.
    tiles = -(-all_tiles // min(all_tiles, -(-_WORKGROUPS // parts)))
    scalars = (*layer.sizes(), *layer.steps(), int(layer.bias is not None), 0, panels, tiles)
    groups = (-(-all_panels // panels), -(-all_tiles // tiles), layer.images)
    depth = channels * kernel_h * kernel_w
    grouped = weight_in_layout(layer.weight, "rows6", [all_tiles, depth, ROW_TILE])
    operands = (layer.x, grouped, layer.bias_or_any())
    return KernelCall("conv", operands, layer.result.type, scalars, groups)
