"""The devices of this machine, under names like `cpu:0` and `vulkan:0`.

`cpu:N` can be opened for every N: logical CPU devices, each with queue and timelines of its
own, as many as a plan has. IREE has one pool of CPU worker threads per process, which they share.
"""

import ctypes
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

from lemurc.errors import DeviceError, UsageError
from lemurc.manifest import HOST
from lemurc.runtime import cpu_features, plugin_devices
from lemurc.runtime.interface import Device
from lemurc.runtime.iree_errors import missing_library, summary, translated
from lemurc.runtime.machine import physical_cores

DRIVERS = {
    "cpu": "local-task",
    "vmvx": "local-task",
    "cuda": "cuda",
    "rocm": "hip",
    "vulkan": "vulkan",
    "metal": "metal",
}
"""IREE's driver for each kind of target."""

HOST_TARGETS = ("cpu", "vmvx")
"""Computed by the processor, from host memory, on as many devices as a plan names."""

WORKER_STACK = 1 << 20
"""Bytes of stack of each CPU worker. IREE's 128 KiB are less than code may take (see
targets/cpu), and beyond them lies other memory of the process, with one page between."""

_lock = threading.Lock()
_opened: dict[str, Any] = {}
_found: dict[str, tuple[list[dict[str, Any]], str]] = {}


_chosen_threads: int | None = None
_MOST_THREADS = 64
"""IREE starts no more by itself."""

_no_workers = False
_turns: dict[str, threading.Lock] = {}


def _forget_devices() -> None:
    """A forked child has none of the worker threads, and IREE starts them once only: there
    CPU devices are opened anew and compute in the calling thread."""
    global _no_workers
    _no_workers = bool(_opened)
    _opened.clear()
    _found.clear()
    _turns.clear()
    plugin_devices.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_devices)


@dataclass(frozen=True)
class Inventory:
    """What is here: `names` by target, `why_not` for targets without a device."""

    names: dict[str, tuple[str, ...]]
    descriptions: dict[str, str] = field(default_factory=dict)
    why_not: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OpenDevice:
    """A device in use. `is_host`: its buffers are host memory that other CPUs may read.

    One of a `plugin` is not IREE's, and has no `hal`.
    """

    name: str
    target: str
    description: str
    hal: Any
    is_host: bool
    plugin: Device | None = None


def kinds() -> tuple[str, ...]:
    """Every kind of device there may be: IREE's, and those of installed packages."""
    return (*DRIVERS, *plugin_devices.kinds(DRIVERS))


def discover(targets: Iterable[str] | None = None) -> Inventory:
    """Look for devices of `targets`, or of every kind; a driver that is missing is a reason,
    not an error."""
    names: dict[str, tuple[str, ...]] = {}
    descriptions: dict[str, str] = {}
    why_not: dict[str, str] = {}
    for target in kinds() if targets is None else targets:
        if target in HOST_TARGETS:
            names[target] = (f"{target}:0",)
            descriptions[f"{target}:0"] = _describe_cpu()
            continue
        if target not in DRIVERS:
            found = plugin_devices.find(target)
            names[target] = tuple(f"{target}:{k}" for k in range(len(found.descriptions)))
            descriptions.update(zip(names[target], found.descriptions, strict=True))
            if found.why_not:
                why_not[target] = found.why_not
            continue
        entries, reason = _query(target)
        if reason:
            why_not[target] = reason
        names[target] = tuple(f"{target}:{k}" for k in range(len(entries)))
        for name, entry in zip(names[target], entries, strict=True):
            descriptions[name] = str(entry["name"])
    return Inventory(names, descriptions, why_not)


def is_software(description: str) -> bool:
    """A Vulkan driver that computes on the CPU, far slower than IREE's own CPU code."""
    return any(name in description.lower() for name in ("llvmpipe", "lavapipe", "swiftshader"))


def open_device(name: str, *, synchronous: bool = False) -> OpenDevice:
    """Open a device by name; DeviceError when it is not there.

    A `synchronous` CPU device runs work in the calling thread: for graphs so small
    that waking a worker costs more than the work.
    """
    if name == HOST:
        near = open_device("cpu:0")
        return replace(near, name=HOST, target=HOST, description="PyTorch on the CPU")
    target, _, number = name.partition(":")
    if target not in DRIVERS:
        description, plugin = plugin_devices.open_device(target, int(number or 0))
        return OpenDevice(name, target, description, None, False, plugin)
    is_host = target in HOST_TARGETS
    driver = "local-sync" if (synchronous or _no_workers) and is_host else DRIVERS.get(target, "")
    key = f"{driver} {name}"
    with _lock:
        if key not in _opened:
            with translated("open a device", name):
                _opened[key] = _immortal(_create(target, int(number or 0), driver, name))
    description = _describe_cpu() if is_host else str(_query(target)[0][int(number or 0)]["name"])
    return OpenDevice(name, target, description, _opened[key], is_host)


def own_device(name: str) -> Any:
    """A CPU device that shares nothing with others and computes in the calling thread: its
    allocator counts what is computed on it alone."""
    from iree.runtime._binding import create_hal_driver  # devices of one driver share memory

    with translated("open a device", name):
        return _immortal(create_hal_driver("local-sync").create_default_device())


class Turns:
    """What a call is made under: Vulkan devices take one call at a time.

    IREE 3.13 loses the device (VK_ERROR_DEVICE_LOST) when two threads have work on it,
    even where they only queue in turns.
    """

    __slots__ = ("_locks",)

    def __init__(self, devices: Iterable[OpenDevice]) -> None:
        names = sorted({device.name for device in devices if device.target == "vulkan"})
        with _lock:
            self._locks = [_turns.setdefault(name, threading.Lock()) for name in names]

    def __enter__(self) -> None:
        for lock in self._locks:  # in the order of names, so that no two calls wait for each other
            lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for lock in self._locks:
            lock.release()


def set_cpu_threads(count: int) -> None:
    """How many threads all CPU devices of this process share; before the first is opened."""
    from iree.runtime.flags import parse_flags

    global _chosen_threads
    with _lock:
        if any(key.startswith("local-task") for key in _opened):
            raise UsageError(
                "the number of CPU threads is fixed once a CPU device is open",
                code="cpu-threads",
                hint="set it before the first lemurc.load",
            )
        parse_flags(f"--task_topology_group_count={count}")
        _chosen_threads = count


def cpu_threads() -> int:
    """How many threads CPU devices have: as set, else one for each core, as IREE does."""
    return _chosen_threads or min(physical_cores(), _MOST_THREADS)


def _create(target: str, number: int, driver: str, name: str) -> Any:
    from iree.runtime import get_driver
    from iree.runtime.flags import parse_flags

    if target in HOST_TARGETS:
        parse_flags(f"--task_worker_stack_size={WORKER_STACK}")
        return get_driver(driver).create_default_device()
    entries, reason = _query(target)
    if number >= len(entries):
        raise DeviceError(
            f"there is no device {name}: {reason or f'only {len(entries)} of its kind found'}",
            code="no-device",
            where=name,
            hint="`lemurc devices` lists what is here",
        )
    return get_driver(driver).create_device(entries[number]["device_id"])


def _immortal(device: Any) -> Any:
    """Keep `device` until the process ends, whatever is torn down first.

    In IREE 3.13 buffers and semaphores that outlive their local-task device crash the
    interpreter at exit, and results may outlive every session.
    """
    from iree.runtime import _binding

    _binding.disable_leak_checker()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(device))
    return device


def _query(target: str) -> tuple[list[dict[str, Any]], str]:
    """The driver's devices and, when there are none, why."""
    if target not in _found:
        _found[target] = _ask_driver(DRIVERS.get(target, target))
    return _found[target]


def _ask_driver(driver: str) -> tuple[list[dict[str, Any]], str]:
    from iree.runtime import get_driver, query_available_drivers

    if driver not in query_available_drivers():
        return [], f"this IREE runtime has no driver {driver!r}"
    try:
        entries = list(get_driver(driver).query_available_devices())
    except Exception as error:
        return [], missing_library(error) or summary(error)
    return entries, "" if entries else f"the {driver} driver found no device"


def _describe_cpu() -> str:
    archs = cpu_features.supported_archs()
    return archs[0] if archs else "cpu"
