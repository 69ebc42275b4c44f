"""The device's memory: from the C library, and never a view of the host's arrays."""

import ctypes
import math
from collections.abc import Sequence

import ml_dtypes  # noqa: F401  (makes NumPy know bfloat16 by name)
import numpy as np

ALIGNMENT = 64

_libc = ctypes.CDLL(None)
_libc.posix_memalign.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_void_p]


class Allocation:
    """Memory that `free` gives back, when the last buffer in it goes."""

    def __init__(self, address: int) -> None:
        self.address = address

    def __del__(self) -> None:
        _libc.free(self.address)

    @classmethod
    def of(cls, size: int) -> "Allocation":
        pointer = ctypes.c_void_p()
        status = _libc.posix_memalign(ctypes.byref(pointer), ALIGNMENT, max(size, 1))
        if status or pointer.value is None:
            raise MemoryError(f"no {size} bytes are left")
        return cls(pointer.value)


class Buffer:
    """A tensor in row-major order; what an output is becomes known when it is computed."""

    def __init__(self) -> None:
        self.allocation: Allocation | None = None
        self.address = 0
        self.shape: tuple[int, ...] = ()
        self.dtype = np.dtype(np.uint8)

    def fill(
        self, allocation: Allocation, address: int, shape: Sequence[int], dtype: np.dtype
    ) -> None:
        self.allocation, self.address = allocation, address
        self.shape, self.dtype = tuple(shape), dtype

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @classmethod
    def copy_of(cls, array: np.ndarray) -> "Buffer":
        buffer = cls()
        allocation = Allocation.of(array.nbytes)
        ctypes.memmove(allocation.address, array.ctypes.data, array.nbytes)
        buffer.fill(allocation, allocation.address, array.shape, array.dtype)
        return buffer

    def copy_to(self, array: np.ndarray) -> None:
        if array.nbytes != self.nbytes:
            raise ValueError(f"{self.nbytes} bytes do not fit an array of {array.nbytes}")
        ctypes.memmove(array.ctypes.data, self.address, self.nbytes)
