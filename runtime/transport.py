"""Bytes between host memory and devices, and between two devices.

CPU devices share host memory, so between them nothing moves. Every other device is
reached through a staging buffer it owns, mapped for the host and imported by a CPU
device: its copies on both sides are queued work, so nobody waits on the host.
"""

import math
from typing import Any

import numpy as np
from iree.runtime import BufferUsage, HalBufferView, MemoryType

from lemurc.runtime.devices import OpenDevice, open_device
from lemurc.runtime.iree_errors import translated
from lemurc.runtime.plugin_devices import guarded
from lemurc.runtime.timeline import Point, Timeline

ALIGNMENT = 64
"""Code for CPUs may assume it of every buffer."""

_BYTE = np.dtype(np.uint8)

_IMPORT_BYTES = 1 << 16
"""Below this, copying is as cheap as importing."""


_HOST_MEMORY = int(MemoryType.HOST_LOCAL) | int(MemoryType.DEVICE_VISIBLE)
_STAGING_MEMORY = _HOST_MEMORY | int(MemoryType.HOST_COHERENT)
_STAGING_USAGE = int(BufferUsage.TRANSFER) | int(BufferUsage.MAPPING)
_HOST_USAGE = int(BufferUsage.DEFAULT) | int(BufferUsage.MAPPING)
_MAPPABLE_MEMORY = int(MemoryType.DEVICE_LOCAL) | int(MemoryType.HOST_VISIBLE)
_DEVICE_MEMORY = int(MemoryType.DEVICE_LOCAL)
_DEVICE_USAGE = int(BufferUsage.DEFAULT) | int(BufferUsage.TRANSFER)


class Staging:
    """`size` bytes that both the host and `device` can reach."""

    def __init__(self, device: OpenDevice, size: int) -> None:
        self.size = size
        with translated("allocate a staging buffer", device.name):
            self.buffer = device.hal.allocator.allocate_buffer(
                _STAGING_MEMORY, _STAGING_USAGE, size
            )
            self._mapping = self.buffer.map()
            self.bytes: np.ndarray = self._mapping.asarray((size,), np.dtype(np.uint8))
        self._imported: dict[str, Any] = {}

    def on_host(self, cpu: OpenDevice) -> Any:
        """The same bytes as a buffer of a CPU device."""
        if cpu.name not in self._imported:
            self._imported[cpu.name] = cpu.hal.allocator.import_host_allocation(
                self.bytes, _HOST_MEMORY, _HOST_USAGE
            )
        return self._imported[cpu.name]


class Lane:
    """One place of a program where a value crosses; its buffers serve call after call."""

    def __init__(self) -> None:
        self._staging: dict[str, Staging] = {}
        self._target: tuple[int, Any] | None = None

    def staging(self, device: OpenDevice, size: int) -> Staging:
        known = self._staging.get(device.name)
        if known is None or known.size != size:
            known = self._staging[device.name] = Staging(device, size)
        return known

    def target(self, device: OpenDevice, size: int, fresh: bool) -> Any:
        """A buffer on `device`: a `fresh` one when the value may outlive the call."""
        if fresh or self._target is None or self._target[0] != size:
            memory = _MAPPABLE_MEMORY if device.is_host else _DEVICE_MEMORY
            usage = _HOST_USAGE if device.is_host else _DEVICE_USAGE
            with translated("allocate memory", device.name):
                buffer = device.hal.allocator.allocate_buffer(memory, usage, size)
            if fresh:
                return buffer
            self._target = (size, buffer)
        return self._target[1]


def host_view(array: np.ndarray, device: OpenDevice, element: int, copy: bool) -> tuple[Any, bool]:
    """A buffer view on a CPU device, and whether it is the caller's own memory."""
    allocator = device.hal.allocator
    if (
        not copy
        and array.flags.c_contiguous
        and array.nbytes >= _IMPORT_BYTES
        and array.flags.writeable
        and array.__array_interface__["data"][0] % ALIGNMENT == 0
    ):
        raw = array.reshape(-1).view(np.uint8)
        buffer = allocator.import_host_allocation(raw, _HOST_MEMORY, _HOST_USAGE)
        return HalBufferView(buffer, array.shape, element), True
    array = np.asarray(array, order="C")
    view = allocator.allocate_buffer_copy(_MAPPABLE_MEMORY, _HOST_USAGE, device.hal, array, element)
    return view, False


def upload(
    array: np.ndarray,
    element: int,
    lane: Lane,
    copies: Timeline,
    started_at: int,
    fresh: bool,
) -> tuple[Any, Point | None]:
    """Queue the copy of a host array to the device of `copies`."""
    device = copies.device
    target = lane.target(device, array.nbytes, fresh)
    view = HalBufferView(target, array.shape, element)
    if not array.nbytes:
        return view, None
    staging = lane.staging(device, array.nbytes)
    staging.bytes[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    wait = copies.after((), started_at)
    device.hal.queue_copy(staging.buffer, target, wait, copies.advance())
    return view, (copies, copies.value)


def download(
    view: Any, ready: Point | None, lane: Lane, copies: Timeline, started_at: int
) -> tuple[Staging | None, Point | None]:
    """Queue the copy of a value into staging memory the host can read."""
    buffer = view.get_buffer()
    size = buffer.byte_length()
    if not size:
        return None, None
    staging = lane.staging(copies.device, size)
    wait = copies.after((ready,), started_at)
    copies.device.hal.queue_copy(buffer, staging.buffer, wait, copies.advance())
    return staging, (copies, copies.value)


def host_copy(
    source: Any, target: Any, ready: Point | None, copies: Timeline, started_at: int
) -> Point:
    """Queue a copy between two buffers of one CPU device."""
    wait = copies.after((ready,), started_at)
    copies.device.hal.queue_copy(source, target, wait, copies.advance())
    return copies, copies.value


def duplicate(
    view: Any, ready: Point | None, copies: Timeline, started_at: int
) -> tuple[Any, Point | None]:
    """Queue a copy of a value into fresh memory of the same device."""
    source, device = view.get_buffer(), copies.device
    size = source.byte_length()
    if not size:
        return view, ready
    target = Lane().target(device, size, True)
    wait = copies.after((ready,), started_at)
    device.hal.queue_copy(source, target, wait, copies.advance())
    return HalBufferView(target, view.shape, view.element_type), (copies, copies.value)


class _Mapping:
    """The memory of a finished value, for NumPy; it lasts as long as any array over it.

    IREE ties it to the one array it returns, and NumPy's views do not keep that alive.
    """

    def __init__(self, view: Any, size: int) -> None:
        self._memory = view.map()
        self.__array_interface__ = self._memory.asarray((size,), _BYTE).__array_interface__


def mapped(view: Any, dtype: np.dtype) -> np.ndarray:
    """An array over a finished value of a CPU device."""
    shape = tuple(view.shape)
    size = math.prod(shape) * dtype.itemsize
    if not size:
        return np.empty(shape, dtype)
    return np.asarray(_Mapping(view, size)).view(dtype).reshape(shape)


def copied_to(view: Any, device: OpenDevice) -> Any:
    """The finished value of one CPU device in memory of another; blocks."""
    size = view.get_buffer().byte_length()
    if not size:
        buffer = Lane().target(device, 0, True)
    else:
        with translated("allocate memory", device.name):
            buffer = device.hal.allocator.allocate_buffer_copy(
                _MAPPABLE_MEMORY, _HOST_USAGE, device.hal, np.asarray(_Mapping(view, size))
            )
    return HalBufferView(buffer, view.shape, view.element_type)


def fetch_now(view: Any, device: OpenDevice, dtype: np.dtype) -> np.ndarray:
    """A finished value as a fresh array; blocks."""
    shape = tuple(view.shape)
    if device.is_host:
        return mapped(view, dtype).copy()
    if device.plugin is not None:
        array = np.empty(shape, dtype)
        with guarded("copy a tensor from the device", device.name):
            device.plugin.download(view, array)
        return array
    with translated("copy a tensor from the device", device.name):
        copies = Timeline(device)
        staging, _ = download(view, None, Lane(), copies, 0)
        if staging is None:
            return np.empty(shape, dtype)
        copies.wait()
    size = int(np.prod(shape)) * dtype.itemsize
    return staging.bytes[:size].copy().view(dtype).reshape(shape)


def host_device() -> OpenDevice:
    """The CPU device that carries bytes between two others."""
    return open_device("cpu:0")
