"""Resizing of images with antialiasing, as one matrix product for each axis."""

from collections.abc import Callable

import torch

from lemurc.frontend.operators.floating import Table

_Filter = Callable[[torch.Tensor], torch.Tensor]


def _triangle(x: torch.Tensor) -> torch.Tensor:
    return torch.clamp(1.0 - torch.abs(x), min=0.0)


def _cubic(x: torch.Tensor) -> torch.Tensor:
    """Keys' kernel with a = -0.5, as PIL and PyTorch use for antialiasing."""
    a, x = -0.5, torch.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return torch.where(x < 1, near, torch.where(x < 2, far, 0.0))


def _lanczos(x: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.abs(x) < 3, torch.sinc(x) * torch.sinc(x / 3), 0.0)


def _weights(
    length: int,
    size: int,
    align_corners: bool,
    scale: float | None,
    filter_: _Filter,
    reach: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    """[size, length]: how much each entry counts in each of the resized."""
    if align_corners:
        ratio = (length - 1) / (size - 1) if size > 1 else 0.0
    else:
        ratio = 1.0 / scale if scale is not None and scale > 0 else length / size
    stretch = max(ratio, 1.0)
    support = reach * stretch
    center = ratio * (torch.arange(size, dtype=dtype)[:, None] + 0.5)
    low = torch.clamp((center - support + 0.5).to(torch.int64), min=0)
    high = torch.clamp((center + support + 0.5).to(torch.int64), max=length)
    at = torch.arange(length)
    weights = filter_((at - center + 0.5) / stretch)
    weights = torch.where((at >= low) & (at < high), weights, 0.0)
    return weights / weights.sum(1, keepdim=True)


def _antialiased(filter_: _Filter, reach: int) -> Callable[..., torch.Tensor]:
    def resize(
        image: torch.Tensor,
        output_size: list[int],
        align_corners: bool,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> torch.Tensor:
        if not image.is_floating_point():
            return NotImplemented
        wide = torch.float64 if image.dtype is torch.float64 else torch.float32
        height, width = image.shape[-2:]
        if not (isinstance(height, int) and isinstance(width, int)):
            return NotImplemented
        rows = _weights(height, output_size[0], align_corners, scales_h, filter_, reach, wide)
        columns = _weights(width, output_size[1], align_corners, scales_w, filter_, reach, wide)
        across = torch.matmul(image.to(wide), columns.t())
        return torch.matmul(rows, across).to(image.dtype)

    return resize


_aten = torch.ops.aten
TABLE: Table = {
    _aten._upsample_bicubic2d_aa.default: _antialiased(_cubic, 2),
    _aten._upsample_bilinear2d_aa.default: _antialiased(_triangle, 1),
    _aten._upsample_lanczos2d_aa.default: _antialiased(_lanczos, 3),
}
