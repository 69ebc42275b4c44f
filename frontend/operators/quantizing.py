"""Rounding to a grid of integers and back."""

import torch

from lemurc.frontend.operators.floating import Table


def fake_quantize(
    values: torch.Tensor,
    scale: torch.Tensor | float,
    zero_point: torch.Tensor | int,
    quant_min: int,
    quant_max: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rounded to the grid, and which values the ends of the grid did not clip."""
    if isinstance(scale, torch.Tensor):
        inverse = 1.0 / scale
    else:  # eager divides in f32
        scale = torch.full((), scale, dtype=torch.float32)
        inverse = 1.0 / scale
    place = torch.round(values * inverse) + zero_point
    inside = (place >= quant_min) & (place <= quant_max)
    grid = torch.clamp(place, quant_min, quant_max)
    return ((grid - zero_point) * scale).to(values.dtype), inside


def fake_quantize_if_enabled(
    values: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    enabled: torch.Tensor,
    quant_min: int,
    quant_max: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    made, inside = fake_quantize(values, scale, zero_point, quant_min, quant_max)
    on = enabled != 0
    return torch.where(on, made, values), torch.where(on, inside, True)


def fake_quantize_per_channel(
    values: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    shape = [1] * values.dim()
    shape[axis] = -1
    return fake_quantize(values, scale.view(shape), zero_point.view(shape), quant_min, quant_max)


_aten = torch.ops.aten
TABLE: Table = {
    _aten.fake_quantize_per_channel_affine_cachemask.default: fake_quantize_per_channel,
    _aten.fake_quantize_per_tensor_affine_cachemask.default: fake_quantize,
    _aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: (
        fake_quantize_if_enabled
    ),
}
