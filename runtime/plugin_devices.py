"""Devices of other packages: finding and opening them, and what their exceptions mean.

See runtime/interface.py for what such a device is.
"""

import threading
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from lemurc.errors import ArtifactError, DeviceError, LemurcError
from lemurc.plugins import DEVICES, installed
from lemurc.runtime.interface import Device
from lemurc.runtime.iree_errors import out_of_memory, translating

_locks: dict[str, threading.Lock] = {}
_drivers: dict[str, Any] = {}
_opened: dict[str, Device] = {}


@dataclass(frozen=True)
class Found:
    """The devices of one kind by description, or why there are none."""

    descriptions: tuple[str, ...]
    why_not: str = ""


def forget() -> None:
    """After a fork: threads and handles of devices stayed with the parent."""
    _drivers.clear()
    _opened.clear()
    _locks.clear()


def kinds(own: Collection[str]) -> tuple[str, ...]:
    """The kinds of devices that installed packages add to our `own`; imports none of them."""
    return tuple(name for name in installed(DEVICES) if name not in own)


def find(kind: str) -> Found:
    """Ask the driver of `kind`; one that is missing or broken is a reason, not an error."""
    try:
        driver = _driver(kind)
        if driver is None:
            return Found((), f"no installed package has a device of kind {kind!r}")
        descriptions = tuple(str(text) for text in driver.devices())
    except LemurcError as error:
        return Found((), error.message)
    except Exception as error:
        return Found((), f"{package_of(kind)}: {error}")
    return Found(descriptions, "" if descriptions else f"{package_of(kind)} finds no device")


def open_device(kind: str, number: int) -> tuple[str, Device]:
    """Description and device; DeviceError when it is not there. Each is opened once."""
    name = f"{kind}:{number}"
    found = find(kind)
    if number >= len(found.descriptions):
        raise DeviceError(
            f"there is no device {name}: "
            f"{found.why_not or f'only {len(found.descriptions)} of its kind found'}",
            code="no-device",
            where=name,
            hint="`lemurc devices` lists what is here; a missing package has to be installed",
        )
    with _locks.setdefault(name, threading.Lock()):  # one that hangs keeps no other
        if name not in _opened:
            driver = _drivers[kind]
            with guarded("open the device", name):
                _opened[name] = driver.open(number)
    return found.descriptions[number], _opened[name]


def package_of(kind: str) -> str:
    """ "name version" of the package that adds devices of `kind`; "" when none does."""
    plugin = installed(DEVICES).get(kind)
    return plugin.package if plugin is not None else ""


class guarded(translating):
    """Raise exceptions of a plug-in inside the block as DeviceErrors that name its package."""

    __slots__ = ()

    @staticmethod
    def meaning(error: BaseException, doing: str, device: str) -> LemurcError | None:
        if isinstance(error, Exception) and not isinstance(error, LemurcError):
            return _translate(error, doing, device)
        return None


def refused_code(error: Exception, stage: str, device: str) -> LemurcError:
    """What an exception of `Device.load` means."""
    if isinstance(error, ValueError):
        package = package_of(device.partition(":")[0])
        return ArtifactError(
            f"cannot load stage {stage} on {device}: {error}",
            code="incompatible-module",
            where=device,
            hint=f"compile the model again with the {package} that is installed here",
        )
    return _translate(error, f"load stage {stage}", device)


def _translate(error: Exception, doing: str, device: str) -> DeviceError:
    package = package_of(device.partition(":")[0])
    said = f"{type(error).__name__}: {error}".partition("\n")[0].removesuffix(": ")
    if isinstance(error, MemoryError):
        return out_of_memory(f"cannot {doing} on {device}: {said}", device)
    return DeviceError(
        f"cannot {doing} on {device}, a device of {package}: {said}",
        code="device-failed",
        where=device,
        hint=f"report this to the authors of {package}; leave the device out with devices=",
    )


def _driver(kind: str) -> Any:
    with _locks.setdefault(kind, threading.Lock()):
        if kind not in _drivers:
            plugin = installed(DEVICES).get(kind)
            if plugin is None:
                return None
            _drivers[kind] = plugin.load()
        return _drivers[kind]
