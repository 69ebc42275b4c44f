"""`lemurc.doctor`: is this machine able to compile and run, and if not, what mends it?

Versions are compared with the pins of the installed distribution, so the answer needs
no source tree. A check that fails names the exact command to type.
"""

import ctypes
import importlib.metadata
import importlib.resources
import platform
import re
import sys
from dataclasses import dataclass

from lemurc.errors import UsageError
from lemurc.plugins import DEVICES, TARGETS, installed
from lemurc.runtime.machine import available_cores, processor_name
from lemurc.tools.report import COMPILER

RUNTIME_FIX = "pip install --force-reinstall lemurc"


@dataclass(frozen=True)
class Item:
    """One thing looked at. `needed_for` is "run", "compile" or "" (nice to have)."""

    name: str
    ok: bool
    found: str
    wanted: str = ""
    needed_for: str = ""
    fix: str = ""


@dataclass(frozen=True)
class DoctorResult:
    items: tuple[Item, ...]
    can_run: bool
    can_compile: bool


def doctor() -> DoctorResult:
    """Look at everything; nothing is changed and no device is left open."""
    items = [_python(), *_packages(), _kernels(), *_drivers(), *_plugins(), _device(), _processor()]
    can_run = all(item.ok for item in items if item.needed_for == "run")
    can_compile = can_run and all(item.ok for item in items if item.needed_for == "compile")
    return DoctorResult(tuple(items), can_run, can_compile)


def _python() -> Item:
    found = platform.python_version()
    return Item("python", sys.version_info >= (3, 11), found, ">=3.11", "run")


def _packages() -> list[Item]:
    """Each requirement of the distribution: what its pin says and what is installed."""
    try:
        requirements = importlib.metadata.requires("lemurc") or []
    except importlib.metadata.PackageNotFoundError:
        found = "a source tree, not installed"
        return [Item("lemurc", False, found, "", "compile", "pip install -e .")]
    items = []
    for requirement in requirements:
        specification, _, marker = requirement.partition(";")
        extra = re.search(r"extra == ['\"](\w+)['\"]", marker)
        if extra is None or extra[1] == "compile":
            name = re.split(r"[^\w.-]", specification, maxsplit=1)[0]
            wanted = specification.removeprefix(name).strip()
            items.append(_package(name, wanted, "compile" if extra else "run"))
    return items


def _package(name: str, wanted: str, needed_for: str) -> Item:
    fix = COMPILER if needed_for == "compile" else RUNTIME_FIX
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Item(name, False, "not installed", wanted, needed_for, fix)
    # "2.13.0+cpu" is a build of 2.13.0
    exact = wanted.startswith("==")
    ok = not exact or found.partition("+")[0] == wanted.removeprefix("==")
    return Item(name, ok, found, wanted, needed_for, "" if ok else f"pip install '{name}{wanted}'")


def _kernels() -> Item:
    """The CPU kernel library: without it the CPU runs IREE's own, slower code."""
    folder = importlib.resources.files("lemurc.targets") / "cpu" / "kernels"
    isas = [isa for isa in folder.iterdir() if isa.is_dir()] if folder.is_dir() else []
    counts = {isa.name: sum(f.name.endswith(".bc") for f in isa.iterdir()) for isa in isas}
    found = [f"{name} ({count})" for name, count in sorted(counts.items()) if count]
    fix = "" if found else "pip install --force-reinstall --no-deps lemurc"
    return Item("cpu kernels", bool(found), ", ".join(found) or "not built", fix=fix)


LIBRARIES = {
    "vulkan": ("libvulkan.so.1", "apt-get install libvulkan1 mesa-vulkan-drivers"),
    "cuda": ("libcuda.so.1", "install the NVIDIA driver"),
    "hip": ("libamdhip64.so", "install ROCm's runtime (hip-runtime-amd)"),
}


def _drivers() -> list[Item]:
    items = []
    for driver, (library, fix) in LIBRARIES.items():
        try:
            ctypes.CDLL(library)
        except OSError:
            items.append(Item(f"{driver} driver", False, f"no {library}", fix=fix))
        else:
            items.append(Item(f"{driver} driver", True, library))
    return items


def _plugins() -> list[Item]:
    """What installed packages add, and whether it can be imported."""
    items = []
    for group in (TARGETS, DEVICES):
        what = group.removeprefix("lemurc.").removesuffix("s")
        try:
            plugins = installed(group)
        except UsageError as error:
            items.append(Item(f"{what} plug-ins", False, error.message, fix=error.hint))
            continue
        for name, plugin in plugins.items():
            try:
                plugin.load()
            except UsageError as error:
                items.append(Item(f"{what} {name}", False, error.message, fix=error.hint))
            else:
                items.append(Item(f"{what} {name}", True, plugin.package))
    return items


def _device() -> Item:
    try:
        from lemurc.tools.devices import devices

        names = [device.name for device in devices().devices]
    except ImportError as error:
        return Item("devices", False, str(error), needed_for="run", fix=RUNTIME_FIX)
    fix = "" if names else "lemurc devices"
    return Item("devices", bool(names), ", ".join(names) or "none", needed_for="run", fix=fix)


def _processor() -> Item:
    return Item("processor", True, f"{processor_name()}, {available_cores()} cores")
