"""The caller's arrays in, the caller's kind of arrays out.

PyTorch is never imported: a caller who passes its tensors has done that already.
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from lemurc.errors import DeviceError, InputError
from lemurc.manifest import HOST, TensorSpec


class DeviceTensor:
    """A result that stays on its device: pass it back in, or read it by DLPack or NumPy.

    Treat it as read-only: session state may share its memory.
    """

    def __init__(self, view: Any, device: Any, dtype: np.dtype) -> None:
        self.view = view
        self.device = device
        self.dtype = dtype
        self.shape = tuple(view.shape)

    def numpy(self) -> np.ndarray:
        """A copy in host memory; DeviceError when the device is gone."""
        from lemurc.runtime.transport import fetch_now

        try:
            return fetch_now(self.view, self.device, self.dtype)
        except DeviceError as error:
            if error.code not in ("device-lost", "device-failed"):
                raise
            raise DeviceError(
                f"a tensor of an earlier call is lost with {self.device.name}: {error.message}",
                code="tensor-lost",
                where=self.device.name,
                hint="compute it again; arrays in host memory outlive devices",
            ) from error

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __dlpack__(self, **options: Any) -> Any:
        if self.device.plugin is not None:
            return self.numpy().__dlpack__()
        kind, index = self.__dlpack_device__()
        return self.device.hal.create_dlpack_capsule(self.view, kind, index)

    def __dlpack_device__(self) -> tuple[int, int]:
        kinds = {"cpu": 1, "vmvx": 1, HOST: 1, "cuda": 2, "vulkan": 7, "metal": 8, "rocm": 10}
        if self.device.plugin is not None:
            return kinds["cpu"], 0  # nobody else reads its memory: a copy in the host's
        number = 0 if self.device.is_host else int(self.device.name.partition(":")[2])
        return kinds[self.device.target], number

    def __repr__(self) -> str:
        return f"DeviceTensor(shape={self.shape}, dtype={self.dtype}, device={self.device.name})"


def to_arrays(
    leaves: Sequence[Any], specs: Sequence[TensorSpec], dtypes: Sequence[np.dtype]
) -> tuple[list[Any], Any]:
    """Arrays (or DeviceTensors) of the leaves, and the device of the first torch tensor."""
    arrays: list[Any] = []
    torch_device = None
    torch = sys.modules.get("torch")
    for leaf, spec, dtype in zip(leaves, specs, dtypes, strict=True):
        if isinstance(leaf, (np.ndarray, DeviceTensor)):
            if isinstance(leaf, np.ma.MaskedArray):
                raise _masked(spec)
            arrays.append(leaf)
        elif torch is not None and isinstance(leaf, torch.Tensor):
            torch_device = torch_device or leaf.device
            arrays.append(_from_torch(leaf, spec))
        else:
            arrays.append(_from_other(leaf, spec, dtype))
    return arrays, torch_device


def _masked(spec: TensorSpec) -> InputError:
    """A mask has no meaning to a model, which would compute with what is hidden."""
    return InputError(
        f"argument {spec.name!r} is a masked array, whose mask would be ignored",
        code="input-type",
        hint="fill what is masked, x.filled(0.0), or pass x.data and the mask by themselves",
    )


def to_torch(array: np.ndarray, device: Any) -> Any:
    """A torch tensor over the same memory, moved if `device` is not the CPU."""
    torch = sys.modules["torch"]
    try:
        tensor = torch.from_numpy(array)
    except TypeError:
        bits = array.view(np.dtype(f"uint{8 * array.dtype.itemsize}"))
        tensor = torch.from_numpy(bits).view(getattr(torch, array.dtype.name))
    return tensor if device.type == "cpu" else tensor.to(device)


def read_tensor(tensor: Any) -> np.ndarray:
    """A torch tensor as an array, over the same memory where it is on the CPU."""
    tensor = tensor.detach().cpu()
    try:
        array: np.ndarray = tensor.numpy()
    except TypeError:
        torch = sys.modules["torch"]
        name = str(tensor.dtype).removeprefix("torch.")
        bits = tensor.contiguous().view(getattr(torch, f"uint{8 * tensor.element_size()}"))
        array = bits.numpy().view(np.dtype(name))
    return array


def _from_torch(tensor: Any, spec: TensorSpec) -> np.ndarray:
    try:
        return read_tensor(tensor)
    except (TypeError, RuntimeError, AttributeError) as error:
        raise InputError(
            f"argument {spec.name!r}: this torch tensor cannot be read ({error})",
            code="input-type",
            hint="pass a dense tensor on the CPU",
        ) from error


def _from_other(leaf: Any, spec: TensorSpec, dtype: np.dtype) -> np.ndarray:
    if isinstance(leaf, (bool, int, float, complex)):
        natural = np.asarray(leaf)
        fits = np.can_cast(natural.dtype, dtype, "same_kind")
        return natural.astype(dtype) if fits else natural
    if isinstance(leaf, np.generic):
        return np.asarray(leaf)
    try:
        if hasattr(leaf, "__dlpack__"):
            return np.from_dlpack(leaf)
        if hasattr(leaf, "__array__"):
            return np.asarray(leaf)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise InputError(
            f"argument {spec.name!r}: this {type(leaf).__name__} cannot be read ({error})",
            code="input-type",
            hint="pass a NumPy array",
        ) from error
    raise InputError(
        f"argument {spec.name!r} is a {type(leaf).__name__}, expected a tensor of {dtype}",
        code="input-type",
        hint="pass a NumPy array, a torch tensor or an object with __dlpack__",
    )
