"""The sets of devices a program is planned for, as contents of `lemur.system`."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lemurc.errors import UsageError

if TYPE_CHECKING:
    from lemurc.targets.registry import TargetRequest

System = dict[str, Any]
MOST_SETS = 15


def systems(
    requests: Sequence["TargetRequest"], pins: Sequence[str], description: str | Path | None
) -> tuple[System, ...]:
    """All non-empty sets of the targets, the largest first.

    `description` is a system.json: its devices and links then make the first set, so
    that a plan may use several devices of one kind. Pins are "glob=device".
    """
    parsed = [_parse_pin(pin) for pin in pins]
    names = [request.target.name for request in requests]
    models = {request.target.name: request for request in requests}
    sets: list[System] = []
    if description is not None:
        sets.append({**_read(Path(description), names), "pins": parsed})
    wanted = {device for _, device in parsed}
    several = sorted(device for device in wanted if ":" in device)
    if several and description is None:
        devices = [_device(models, name) for name in several]
        others = [_device(models, name) for name in names if name in wanted]
        sets.append({"devices": devices + others, "pins": parsed})
    for size in range(len(names), 0, -1):
        for chosen in itertools.combinations(names, size):
            held = [pin for pin in parsed if pin[1] in chosen]
            if len(held) < len(parsed) and size == len(names) and not several:
                _refuse_pins(parsed, names)
            devices = [_device(models, name) for name in chosen]
            sets.append({"devices": devices, "pins": held})
    return tuple(sets[:MOST_SETS])


def asked(sets: Sequence[System], described: bool) -> tuple[str, ...]:
    """The devices that the user named: pinned ones, and all of a description."""
    names = {device for _, device in sets[0]["pins"]}
    if described:
        names |= {device["name"] for device in sets[0]["devices"]}
    return tuple(sorted(names))


def _parse_pin(pin: str) -> tuple[str, str]:
    pattern, equals, device = pin.rpartition("=")
    if not equals or not pattern or not device:
        raise UsageError(
            f"cannot read the pin {pin!r}",
            code="bad-pin",
            where="--pin",
            hint="write it as 'encoder.layer.0.*=vulkan'",
        )
    return pattern, device


def _device(requests: dict[str, "TargetRequest"], name: str) -> System:
    kind = name.partition(":")[0]
    if kind not in requests:
        _refuse_pins([("*", name)], list(requests))
    return requests[kind].target.system_device(name, requests[kind].archs)


def _refuse_pins(pins: Sequence[tuple[str, str]], names: list[str]) -> None:
    for pattern, device in pins:
        if device.partition(":")[0] not in names:
            raise UsageError(
                f"the pin {pattern}={device} names a device that is no target",
                code="pin-unknown-device",
                where="--pin",
                hint=f"add {device.partition(':')[0]} to --targets, or pin to one of {names}",
            )


def _read(path: Path, names: list[str]) -> System:
    try:
        system = json.loads(path.read_text())
        devices = system["devices"]
        kinds = {device["target"] for device in devices}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"cannot read the system description: {error}",
            code="bad-system",
            where=str(path),
            hint="it is JSON with 'devices' (name, target, flops, bandwidth, launch, memory) "
            "and 'links' (src, dst, bandwidth, latency)",
        ) from error
    if not kinds <= set(names):
        missing = sorted(kinds - set(names))
        raise UsageError(
            f"the system has devices of {missing}, which are no targets",
            code="bad-system",
            where=str(path),
            hint=f"compile with --targets {','.join(sorted(kinds | set(names)))}",
        )
    return {"devices": devices, "links": system.get("links", [])}
