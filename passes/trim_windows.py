"""Cut off what a single window does not reach.

    conv_2d_nchw_fchw {strides = 2} (%x : 1x2x4x4, %w : 3x2x3x3) -> 1x3x1x1
      ->  the same of tensor.extract_slice %x[0, 0, 0, 0] [1, 2, 3, 3] [1, 1, 1, 1]

Along a dimension whose result has size 1, IREE 3.13 drops the window's loop and takes the
whole dimension for the window: where stride or rounding left a rest, its code is invalid.
"""

import re
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.passes.base import Pass
from lemurc.passes.tensor_operations import dim_size
from lemurc.passes.walking import operations

_NAME = re.compile(
    r"linalg\.(?:depthwise_)?(?:conv|pooling)_(?:\dd_)?(?P<image>n[cdghw]+)_(?P<rest>[a-z]+)"
)
"""`conv_2d_nchw_fchw` or `pooling_nchw_max`: the layout, and that of a convolution's weights."""
_SPACE = "dhw"


@dataclass(frozen=True)
class TrimWindows(Pass):
    """Convolutions and poolings of one window along a dimension read no further than it."""

    name: ClassVar[str] = "trim-windows"

    def run(self, module: ir.Operation) -> None:
        for operation in operations(module, _has_windows):
            _trim(operation)


def _has_windows(operation: ir.Operation) -> bool:
    return bool(_NAME.match(operation.name)) and "strides" in operation.attributes


def _trim(operation: ir.Operation) -> None:
    image, window = operation.operands[0], operation.operands[1]
    shape = list(ir.RankedTensorType(image.type).shape)
    reach = list(shape)
    for dim, size, dilation in _windows(operation, window):
        last = ir.RankedTensorType(operation.results[0].type).shape[dim]
        if last == 1 and 0 < (size - 1) * dilation + 1 < shape[dim]:
            reach[dim] = (size - 1) * dilation + 1
    if reach == shape:
        return
    with ir.InsertionPoint(operation), operation.location:
        operation.operands[0] = _front(image, reach)


def _windows(operation: ir.Operation, window: ir.Value) -> list[tuple[int, int, int]]:
    """Per spatial dimension of the image: its position, the window's size, the dilation."""
    layouts = _NAME.match(operation.name)
    assert layouts is not None
    positions = [at for at, letter in enumerate(layouts["image"]) if letter in _SPACE]
    sizes = list(ir.RankedTensorType(window.type).shape)
    if "pooling" not in operation.name:  # weights have channels too
        letters = zip(sizes, layouts["rest"], strict=True)
        sizes = [size for size, letter in letters if letter in _SPACE]
    dilations = list(ir.DenseIntElementsAttr(operation.attributes["dilations"]))
    return list(zip(positions, sizes, dilations, strict=True))


def _front(value: ir.Value, sizes: list[int]) -> ir.Value:
    """The first entries along every dimension; a dynamic one stays whole."""
    kind = ir.RankedTensorType(value.type)
    dynamic = [dim_size(value, dim) for dim in range(kind.rank) if kind.is_dynamic_dim(dim)]
    return ir.Operation.create(
        "tensor.extract_slice",
        results=[ir.RankedTensorType.get(sizes, kind.element_type)],
        operands=[value, *dynamic],
        attributes={
            "static_offsets": ir.DenseI64ArrayAttr.get([0] * kind.rank),
            "static_sizes": ir.DenseI64ArrayAttr.get(sizes),
            "static_strides": ir.DenseI64ArrayAttr.get([1] * kind.rank),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, len(dynamic), 0]),
        },
    ).results[0]
