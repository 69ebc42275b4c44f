"""Tensors as NumPy arrays and back, sharing memory; bf16 and f8 through ml_dtypes."""

from typing import Any

import ml_dtypes
import numpy as np
import torch

from lemurc.errors import UnsupportedModelError
from lemurc.frontend.program import Array

_EXTENDED: dict[torch.dtype, tuple[torch.dtype, Any]] = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn),
    torch.float8_e4m3fnuz: (torch.uint8, ml_dtypes.float8_e4m3fnuz),
    torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2),
    torch.float8_e5m2fnuz: (torch.uint8, ml_dtypes.float8_e5m2fnuz),
}
_BY_NAME = {np.dtype(kind).name: dtype for dtype, (_, kind) in _EXTENDED.items()}


def to_array(tensor: torch.Tensor) -> Array:
    """Row-major; shares memory when the tensor is a contiguous CPU tensor."""
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise UnsupportedModelError(
            f"a tensor of layout {tensor.layout} and type {tensor.dtype} is not supported",
            code="tensor-layout",
            hint="convert it with .to_dense() or .dequantize() before compiling",
        )
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if plain.dtype in _EXTENDED:
        storage, kind = _EXTENDED[plain.dtype]
        return plain.view(storage).numpy().view(kind)
    return plain.numpy()


def to_tensor(array: Array) -> torch.Tensor:
    """A tensor with memory of its own."""
    copied = np.array(array, order="C")
    dtype = _BY_NAME.get(copied.dtype.name)
    if dtype is None:
        return torch.from_numpy(copied)
    return torch.from_numpy(copied.view(f"i{copied.itemsize}")).view(dtype)


def dtype_name(dtype: torch.dtype) -> str:
    """NumPy's or ml_dtypes' name of a torch dtype."""
    if dtype in _EXTENDED:
        return str(np.dtype(_EXTENDED[dtype][1]).name)
    return str(dtype).removeprefix("torch.")
