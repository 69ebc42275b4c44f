"""The devices of this machine, and why the others are not there."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceRow:
    """`name` is what `--device` takes; `target` is the kind of code it runs."""

    name: str
    target: str
    description: str


@dataclass(frozen=True)
class DevicesResult:
    """`absent` maps a kind of device to the reason that none is here."""

    devices: tuple[DeviceRow, ...]
    absent: dict[str, str]


def devices() -> DevicesResult:
    """Ask every driver; no device stays open."""
    from lemurc.runtime.devices import discover

    found = discover()
    rows = [
        DeviceRow(name, target, found.descriptions.get(name, ""))
        for target, names in found.names.items()
        for name in names
    ]
    return DevicesResult(tuple(rows), dict(found.why_not))
