"""The sets of devices a program is planned for, as contents of `lemur.system`."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lemurc.errors import UsageError
from lemurc.system_file import (
    DeviceDescription,
    LinkDescription,
    SystemDescription,
    read_system,
)

if TYPE_CHECKING:
    from lemurc.targets.registry import TargetRequest

System = dict[str, Any]
MOST_SETS = 15
HOST_MEMORY = "host memory"
"""What passes/system.py calls the far end of a device's link where no CPU takes part."""


@dataclass(frozen=True)
class Description:
    """A system to plan for: `asked` says that the user named it, and where it stands."""

    system: SystemDescription
    where: str
    asked: bool

    @property
    def is_here(self) -> bool:
        """Whether it is of this machine, so that what was measured here holds."""
        from lemurc.runtime.machine import available_cores, processor_name

        origin = self.system.provenance
        return (origin.processor, origin.cores) == (processor_name(), available_cores())


def find_description(path: str | Path | None) -> Description | None:
    """The system of `path`, else this machine as `lemurc probe` found it, if it ever did."""
    if path is not None:
        return Description(read_system(path), str(path), asked=True)
    from lemurc.targets.cache import own_system_path

    own = own_system_path()
    if not own.exists():
        return None
    found = Description(read_system(own), str(own), asked=False)
    return found if found.is_here else None


def systems(
    requests: Sequence["TargetRequest"],
    pins: Sequence[str],
    described: Description | None,
    profiled: Mapping[str, System] | None = None,
    forbids: Sequence[str] = (),
) -> tuple[System, ...]:
    """All non-empty sets of the targets, the largest first.

    The devices that the user described make the first set, so that a plan may use several
    of one kind. Figures come from the description where it has a device of the target, else
    from the target; `profiled` adds what was measured, by target. Pins are "selector=device",
    and so is what is forbidden, where a target stands for its devices.
    """
    parsed = [_parse(pin, "pin") for pin in pins]
    forbidden = [_parse(forbid, "forbid") for forbid in forbids]
    names = [request.target.name for request in requests]
    known = _Devices(requests, described, profiled or {}, forbidden)
    sets: list[System] = []
    asked = described is not None and described.asked
    if described is not None and described.asked:
        _check_targets(described, names)
        devices = [device.name for device in described.system.devices]
        sets.append({**known.set(devices), "pins": parsed})
    wanted = {device for _, device in parsed}
    several = sorted(device for device in wanted if ":" in device)
    if several and not asked:
        others = [name for name in names if name in wanted]
        sets.append({**known.set(several + others), "pins": parsed})
    for size in range(len(names), 0, -1):
        for chosen in itertools.combinations(names, size):
            held = [pin for pin in parsed if pin[1] in chosen]
            if len(held) < len(parsed) and size == len(names) and not several and not asked:
                _refuse_pins(parsed, names)
            sets.append({**known.set(chosen), "pins": held})
    _refuse_forbids(forbidden, {*names, *(d["name"] for one in sets for d in one["devices"])})
    return tuple(sets[:MOST_SETS])


def asked_devices(sets: Sequence[System], described: bool) -> tuple[str, ...]:
    """The devices that the user named: pinned ones, and all of a description."""
    names = {device for _, device in sets[0]["pins"]}
    if described:
        names |= {device["name"] for device in sets[0]["devices"]}
    return tuple(sorted(names))


def notes_on(requests: Sequence["TargetRequest"], described: Description | None) -> list[str]:
    """What the user should know: which description is used, and what it leaves open."""
    notes = []
    targets = {request.target.name for request in requests}
    if described is not None and not described.asked:
        names = [device.name for device in described.system.devices if device.target in targets]
        date = described.system.provenance.date.partition("T")[0]
        if names:
            notes.append(f"planned with {', '.join(names)} as `lemurc probe` measured them, {date}")
    for device in described.system.devices if described is not None and described.asked else ():
        missing = [
            name
            for name in ("flops", "bandwidth", "launch", "memory")
            if not getattr(device, name) and getattr(device, name) != 0
        ]
        if missing and device.target in targets:
            notes.append(
                f"{device.name}: {', '.join(missing)} as of a typical {device.target} device, "
                "the system description has none"
            )
    return notes


class _Devices:
    """The contents of `lemur.system` for any choice of devices."""

    def __init__(
        self,
        requests: Sequence["TargetRequest"],
        described: Description | None,
        profiled: Mapping[str, System],
        forbidden: Sequence[tuple[str, str]],
    ) -> None:
        self._profiled = profiled
        self._forbidden = forbidden
        self._requests = {request.target.name: request for request in requests}
        self._described = described.system.devices if described is not None else ()
        self._links = described.system.links if described is not None else ()

    def set(self, names: Sequence[str]) -> System:
        origins = {name: self._description(name) for name in names}
        return {
            "devices": [self._device(name, origin) for name, origin in origins.items()],
            "links": self._links_of(origins),
            "forbids": self._forbidden,
        }

    def _description(self, name: str) -> DeviceDescription | None:
        """The described device of that name, else the first of the target it names."""
        exact = [device for device in self._described if device.name == name]
        kind = name.partition(":")[0]
        return next(iter(exact + [d for d in self._described if d.target == kind]), None)

    def _device(self, name: str, origin: DeviceDescription | None) -> System:
        kind = origin.target if origin is not None else name.partition(":")[0]
        if kind not in self._requests:
            _refuse_pins([("*", name)], list(self._requests))
        request = self._requests[kind]
        item: System = request.target.system_device(name, request.archs)
        if origin is not None:
            for key in ("flops", "bandwidth", "launch", "call", "memory"):
                if getattr(origin, key) or getattr(origin, key) == 0:
                    item[key] = getattr(origin, key)
            item["memory_known"] = origin.memory is not None
            item["slowdown"] = origin.slowdown
        return item | self._profiled.get(kind, {})

    def _links_of(self, origins: dict[str, DeviceDescription | None]) -> list[System]:
        """Links between those devices, and from the described CPU where none of them is one."""
        named = {name: origin.name for name, origin in origins.items() if origin is not None}
        host = next((d.name for d in self._described if d.target == "cpu"), None)
        targets = {origin.target for origin in origins.values() if origin is not None}
        if host is not None and "cpu" not in targets:
            named[HOST_MEMORY] = host
        ends = list(itertools.permutations(named, 2))
        return [
            _link(link, src, dst)
            for src, dst in ends
            for link in self._links
            if (link.src, link.dst) == (named[src], named[dst])
        ]


def _link(link: LinkDescription, src: str, dst: str) -> System:
    item: System = {"src": src, "dst": dst, "latency": link.latency}
    return item | ({"bandwidth": link.bandwidth} if link.bandwidth else {})


def _check_targets(described: Description, names: list[str]) -> None:
    kinds = {device.target for device in described.system.devices}
    if not kinds <= set(names):
        raise UsageError(
            f"the system has devices of {sorted(kinds - set(names))}, which are no targets",
            code="bad-system",
            where=described.where,
            hint=f"compile with --targets {','.join(sorted(kinds | set(names)))}",
        )


def _parse(pair: str, word: str) -> tuple[str, str]:
    selector, equals, device = pair.rpartition("=")
    if not equals or not selector or not device:
        raise UsageError(
            f"cannot read the {word} {pair!r}",
            code="bad-pin",
            where=f"--{word}",
            hint="write it as 'encoder.layer.0.*=vulkan', 'kind:softmax=cpu' or 're:.*norm=cpu'",
        )
    if selector.startswith("re:"):
        try:
            re.compile(selector.removeprefix("re:"))
        except re.error as error:
            raise UsageError(
                f"the {word} {pair!r} is no regular expression: {error}",
                code="bad-pin",
                where=f"--{word}",
                hint="it is Python's, of the whole path of a module: 're:layers\\.[0-3]\\..*=cpu'",
            ) from error
    return selector, device


def _refuse_forbids(forbids: Sequence[tuple[str, str]], known: set[str]) -> None:
    for selector, device in forbids:
        if device not in known:
            raise UsageError(
                f"{selector}={device} forbids a device that there is not",
                code="pin-unknown-device",
                where="--forbid",
                hint=f"there are {', '.join(sorted(known))}",
            )


def _refuse_pins(pins: Sequence[tuple[str, str]], names: list[str]) -> None:
    for pattern, device in pins:
        if device.partition(":")[0] not in names:
            raise UsageError(
                f"the pin {pattern}={device} names a device that is no target",
                code="pin-unknown-device",
                where="--pin",
                hint=f"add {device.partition(':')[0]} to --targets, or pin to one of {names}",
            )
