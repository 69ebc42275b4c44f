"""How much memory a device has, asked of its driver."""

import contextlib
import ctypes
import os
import re
from pathlib import Path

from lemurc.runtime.devices import DRIVERS, OpenDevice

_HEAP = re.compile(r"\[\d+\] size=(\d+) flags=0x([0-9a-f]+)", re.IGNORECASE)
_DEVICE_LOCAL = 1
_LIBRARIES = {
    "cuda": ("libcuda.so.1", "cuInit", "cuDeviceGet", "cuDeviceTotalMem_v2"),
    "rocm": ("libamdhip64.so", "hipInit", "hipDeviceGet", "hipDeviceTotalMem"),
}


def memory_of(device: OpenDevice) -> tuple[int | None, str]:
    """Bytes, or None and the reason that they are not known."""
    if device.is_host:
        return _host_memory()
    number = int(device.name.partition(":")[2] or 0)
    if device.target == "vulkan":
        return _largest_heap(device.target, number)
    if device.target in _LIBRARIES:
        return _from_library(*_LIBRARIES[device.target], number)
    return None, f"{device.target}'s driver does not say"


def _host_memory() -> tuple[int | None, str]:
    """What the machine has, or the container may use."""
    try:
        limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, OSError, ValueError):
        return None, "the operating system does not say"
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            limits.append(int(Path("/sys/fs/cgroup", name).read_text()))
    return min(limits), ""


def _largest_heap(target: str, number: int) -> tuple[int | None, str]:
    from iree.runtime import get_driver

    driver = get_driver(DRIVERS[target])
    text = driver.dump_device_info(driver.query_available_devices()[number]["device_id"])
    section = text.partition("memory_heaps:")[2].partition("memory_types:")[0]
    heaps = [int(size) for size, flags in _HEAP.findall(section) if int(flags, 16) & _DEVICE_LOCAL]
    return (max(heaps), "") if heaps else (None, "the driver lists no heap of the device's own")


def _from_library(
    library: str, init: str, get: str, total: str, number: int
) -> tuple[int | None, str]:
    device, size = ctypes.c_int(), ctypes.c_size_t()
    try:
        driver = ctypes.CDLL(library)
        status = getattr(driver, init)(0)
        status = status or getattr(driver, get)(ctypes.byref(device), number)
        status = status or getattr(driver, total)(ctypes.byref(size), device)
    except (OSError, AttributeError) as error:
        return None, f"cannot ask {library}: {error}"
    return (None, f"{total} answers {status}") if status else (size.value, "")
