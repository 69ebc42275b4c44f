"""Transposed convolutions as plain ones, and padding that crops.

torch-mlir 20261001 refuses grouped transposed convolutions and answers wrong for some
dilated ones; it makes an invalid slice of a negative padding.
"""

from typing import Any

import torch

from lemurc.frontend.operators.floating import Table


def convolution(
    image: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> Any:
    """Zeros between the entries, then a convolution with the kernel turned around."""
    rank = weight.dim() - 2
    if not transposed:
        return NotImplemented
    dynamic = any(not isinstance(size, int) for size in image.shape[-rank:])
    stride, padding, dilation, output_padding = (
        list(given) if len(given) == rank else [given[0]] * rank
        for given in (stride, padding, dilation, output_padding)
    )
    crops = any(
        dilation[axis] * (weight.shape[2 + axis] - 1) < padding[axis] for axis in range(rank)
    )
    if dynamic and crops:  # torch-mlir's is right there, and ours would compare sizes
        return NotImplemented
    spread = image
    for axis in range(rank):
        dim = image.dim() - rank + axis
        spread = _spread(spread, dim, stride[axis])
        before = dilation[axis] * (weight.shape[2 + axis] - 1) - padding[axis]
        spread = _pad(spread, dim, before, before + output_padding[axis])
    inputs, outputs, *kernel = weight.shape
    turned = weight.flip(list(range(2, 2 + rank)))
    turned = turned.reshape(groups, inputs // groups, outputs, *kernel).transpose(1, 2)
    turned = turned.reshape(groups * outputs, inputs // groups, *kernel)
    ones, zeros = [1] * rank, [0] * rank
    return torch.ops.aten.convolution(
        spread, turned, bias, ones, zeros, dilation, False, zeros, groups
    )


def _spread(image: torch.Tensor, dim: int, stride: int) -> torch.Tensor:
    """stride - 1 zeros between neighbours."""
    if stride == 1:
        return image
    length = image.shape[dim]
    apart = image.unsqueeze(dim + 1)
    shape = list(apart.shape)
    shape[dim + 1] = stride - 1
    with_zeros = torch.cat([apart, torch.zeros(shape, dtype=image.dtype)], dim + 1)
    return with_zeros.flatten(dim, dim + 1).narrow(dim, 0, (length - 1) * stride + 1)


def _pad(image: torch.Tensor, dim: int, before: int, after: int) -> torch.Tensor:
    padding = [0, 0] * (image.dim() - 1 - dim) + [before, after]
    return torch.nn.functional.pad(image, padding)


def constant_pad(image: torch.Tensor, padding: list[int], value: float = 0) -> Any:
    """Cut where the padding is negative, then pad with what is positive."""
    if all(not isinstance(size, int) or size >= 0 for size in padding):
        return NotImplemented
    for at in range(len(padding) // 2):
        dim = image.dim() - 1 - at
        before, after = (max(-size, 0) for size in padding[2 * at : 2 * at + 2])
        image = image.narrow(dim, before, image.shape[dim] - before - after)
    rest = [max(size, 0) for size in padding]
    return torch.ops.aten.constant_pad_nd(image, rest, value) if any(rest) else image.clone()


_aten = torch.ops.aten
TABLE: Table = {
    _aten.constant_pad_nd.default: constant_pad,
    _aten.convolution.default: convolution,
}
