"""`system.json`: the devices and links to plan for, measured by `lemurc probe` or written by hand.

    {"schema": "system.v1",
     "devices": [{"name": "cpu:0", "target": "cpu", "flops": {"f32": 1.5e11}, "bandwidth": 2e10},
                 {"name": "cuda:0", "known": "H100"}],
     "links": [{"src": "cpu:0", "dst": "cuda:0", "latency": 1e-5,
                "bandwidth": {"65536": 2e9, "67108864": 2.4e10}}]}

Seconds, bytes, and operations or bytes per second. A figure that is not given is taken
from the known device named by `known`, else from the target's typical device, which the
compiler says. Reading is strict: whatever is wrong is one message that names the field.
"""

import dataclasses
import difflib
import json
import re
import sys
import types
import typing
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from lemurc.errors import UsageError

SCHEMA = "system.v1"
UNKNOWN_LATENCY = 5.0e-5
UNKNOWN_RATE = 4.0e9
"""Of a link that nobody described: a slow one."""

Rates = dict[str, float]
"""Per second, by element type ("f32") or by size in bytes ("65536")."""

_RATES = (1.0, 1e24)
_SECONDS = (0.0, 3600.0)
_LIMITS = {
    "launch": _SECONDS,
    "call": _SECONDS,
    "memory": (1, 1 << 60),
    "slowdown": (1e-6, 1e6),
    "threads": (1, 1 << 16),
}
"""Of what a figure can be: beyond it, times are none that anything can be planned by."""

_RATE = "a number, or an object of numbers by element type such as f32"
_ALL_TYPES = "f32"


@dataclass(frozen=True)
class DeviceDescription:
    """One device. `name` is what plans call it and `target` the code it runs.

    `flops` are those of matrix products and `bandwidth` that of the device's memory, by
    element type; a type that is not listed runs as f32. `launch` is the time of a kernel
    that does nothing and `call` that of handing a stage to the device. `slowdown` multiplies
    every time. `threads` says how many CPU threads were measured. `absent` says why a figure
    could not be measured.
    """

    name: str
    target: str = ""
    known: str = ""
    arch: str = ""
    description: str = ""
    flops: Rates = field(default_factory=dict)
    bandwidth: Rates = field(default_factory=dict)
    launch: float | None = None
    call: float | None = None
    memory: int | None = None
    slowdown: float = 1.0
    threads: int | None = None
    absent: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LinkDescription:
    """From one device to another: `latency`, then bytes per second by the size moved.

    A way back that is not given is taken to be like the way there.
    """

    src: str
    dst: str
    latency: float = 0.0
    bandwidth: Rates = field(default_factory=dict)


@dataclass(frozen=True)
class Provenance:
    """Where the figures come from; nothing reads this but people and `lemurc compile`'s note."""

    made_by: str = ""
    date: str = ""
    processor: str = ""
    cores: int | None = None
    method: str = ""
    sources: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SystemDescription:
    """What `system.json` holds."""

    devices: tuple[DeviceDescription, ...]
    links: tuple[LinkDescription, ...] = ()
    provenance: Provenance = Provenance()


@dataclass(frozen=True)
class KnownDevice:
    """A GPU by its datasheet. `flops` and `bandwidth` are peaks, which no program reaches.

    `sources` gives the document of each figure.
    """

    title: str
    target: str
    arch: str
    flops: Rates
    bandwidth: Rates
    memory: int
    sources: dict[str, str]


@dataclass(frozen=True)
class SimulatedDevice:
    """What a simulated device did so far; `peak_bytes` are weights and the most live at once.

    `times_slower` is relative to one thread of this processor.
    """

    device: str
    times_slower: float
    memory: int | None
    weight_bytes: int
    peak_bytes: int


def read_system(path: str | Path) -> SystemDescription:
    """Read and check `path`; UsageError (`bad-system`) names the field that is wrong."""
    where = str(path)
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise _bad(f"cannot read it: {error.strerror or error}", where) from error
    except ValueError as error:
        raise _bad(f"it is not JSON: {error}", where) from error
    return system_from(document, where)


def system_from(document: Any, where: str) -> SystemDescription:
    """The description in parsed JSON; `where` is what messages call its source."""
    if not isinstance(document, dict):
        raise _bad("it is not an object with 'devices' and 'links'", where)
    version = document.get("schema", SCHEMA)
    if version != SCHEMA:
        raise _bad(f"schema: {version!r} is not {SCHEMA!r}, which this lemurc reads", where)
    content = {key: value for key, value in document.items() if key != "schema"}
    system = _read(SystemDescription, content, "", where)
    assert isinstance(system, SystemDescription)
    devices = tuple(_completed(device, f"devices[{k}]", where)
                    for k, device in enumerate(system.devices))  # fmt: skip
    completed = dataclasses.replace(system, devices=devices)
    check_system(completed, where)
    return completed


def transfer_seconds(system: SystemDescription, src: str, dst: str, size: int) -> float:
    """How long `size` bytes take from one device to another, by the link or that of the way
    back; at the rate of the largest described size up to `size`."""
    ways = [
        link
        for ends in ((src, dst), (dst, src))
        for link in system.links
        if (link.src, link.dst) == ends
    ]
    if not ways:
        return UNKNOWN_LATENCY + size / UNKNOWN_RATE
    rates = {int(known): rate for known, rate in ways[0].bandwidth.items()}
    below = [known for known in rates if known <= size]
    rate = rates[max(below) if below else min(rates)] if rates else UNKNOWN_RATE
    return ways[0].latency + size / rate


def write_system(path: str | Path, system: SystemDescription) -> None:
    """Write `system` whole: to a temporary name first. OSError where that cannot be."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.new")
    try:
        temporary.write_text(to_json(system), encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def to_json(system: SystemDescription) -> str:
    document = {"schema": SCHEMA, **dataclasses.asdict(system)}
    return json.dumps(document, indent=1) + "\n"


def known_devices() -> dict[str, KnownDevice]:
    """The GPUs that a description may refer to, by name."""
    text = resources.files("lemurc").joinpath("known_devices.json").read_text(encoding="utf-8")
    return {
        name: _read(KnownDevice, item, name, "known_devices.json")
        for name, item in json.loads(text).items()
    }


def find_known(name: str, path: str, where: str) -> KnownDevice:
    """The known device called `name`, in any spelling of case and spaces."""
    known = known_devices()
    spellings = {
        _plain(word): device for key, device in known.items() for word in (key, device.title)
    }
    if _plain(name) in spellings:
        return spellings[_plain(name)]
    near = difflib.get_close_matches(name, known, 1)
    raise _bad(
        f"{path}.known: there is no known device {name!r}",
        where,
        f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}",
    )


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _completed(device: DeviceDescription, path: str, where: str) -> DeviceDescription:
    """With the figures of the known device it refers to, where it has none of its own."""
    if not device.known:
        if not device.target:
            raise _bad(f"{path}: it has neither 'target' nor 'known'", where)
        return device
    known = find_known(device.known, path, where)
    if device.target not in ("", known.target, "vulkan"):
        raise _bad(
            f"{path}.target: a {known.title} does not run {device.target!r}",
            where,
            f"leave it out, or write {known.target!r} or 'vulkan'",
        )
    same = device.target in ("", known.target)
    return dataclasses.replace(
        device,
        target=device.target or known.target,
        arch=device.arch or (known.arch if same else ""),
        description=device.description or known.title,
        flops={**known.flops, **device.flops},
        bandwidth=device.bandwidth or known.bandwidth,
        memory=known.memory if device.memory is None else device.memory,
    )


def check_system(system: SystemDescription, where: str) -> None:
    """UsageError (`bad-system`) for what no type shows: names, and figures that none can be."""
    devices, links = system.devices, system.links
    if not devices:
        raise _bad("devices: there must be at least one", where)
    names: list[str] = []
    for number, device in enumerate(devices):
        path = f"devices[{number}]"
        if not device.name or device.name in names:
            raise _bad(f"{path}.name: {device.name!r} is not a name of its own", where)
        names.append(device.name)
        for key in ("flops", "bandwidth"):
            _check_rates(getattr(device, key), f"{path}.{key}", where)
        for key in _LIMITS:
            _check_number(getattr(device, key), f"{path}.{key}", where, _LIMITS[key])
    pairs: list[tuple[str, str]] = []
    for number, link in enumerate(links):
        path = f"links[{number}]"
        for key in ("src", "dst"):
            if getattr(link, key) not in names:
                raise _bad(
                    f"{path}.{key}: there is no device {getattr(link, key)!r}",
                    where,
                    f"the devices are {', '.join(names)}",
                )
        if link.src == link.dst:
            raise _bad(f"{path}: it links {link.src!r} to itself", where)
        if (link.src, link.dst) in pairs:
            raise _bad(f"{path}: a second link from {link.src!r} to {link.dst!r}", where)
        pairs.append((link.src, link.dst))
        _check_number(link.latency, f"{path}.latency", where, _SECONDS)
        for size in link.bandwidth:
            if not re.fullmatch("0*[1-9][0-9]{,18}", size):
                raise _bad(f"{path}.bandwidth: {size!r} is not a size in bytes", where)
        _check_rates(link.bandwidth, f"{path}.bandwidth", where, sizes=True)


def _check_rates(rates: Rates, path: str, where: str, sizes: bool = False) -> None:
    for key, value in rates.items():
        if not sizes and key not in ELEMENT_TYPES:
            near = difflib.get_close_matches(key, ELEMENT_TYPES, 1)
            raise _bad(
                f"{path}: {key!r} is not an element type",
                where,
                f"did you mean {near[0]!r}?" if near else f"types are {', '.join(ELEMENT_TYPES)}",
            )
        _check_number(value, f"{path}.{key}", where, _RATES)


ELEMENT_TYPES = ("f64", "f32", "tf32", "f16", "bf16", "f8", "i64", "i32", "i16", "i8", "i4", "i1")


def _check_number(value: float | None, path: str, where: str, limits: tuple[float, float]) -> None:
    least, most = limits
    if value is None or least <= value <= most:
        return
    raise _bad(f"{path}: {value!r} is not a number from {least:g} to {most:g}", where)


def _read(kind: Any, value: Any, path: str, where: str) -> Any:
    """`value` as `kind`, a dataclass or a type of its fields."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return None if value is None else _read(args[0], value, path, where)
    if kind == Rates and isinstance(value, (int, float)) and not isinstance(value, bool):
        return {str(1 << 20) if path.startswith("links") else _ALL_TYPES: float(value)}
    if dataclasses.is_dataclass(kind) or origin is dict:
        if not isinstance(value, dict):
            expected = _RATE if kind == Rates else "an object"
            raise _bad(f"{path or 'it'}: expected {expected}, got {value!r}", where)
        if origin is dict:
            return {key: _read(args[1], item, f"{path}.{key}", where)
                    for key, item in value.items()}  # fmt: skip
        return _read_fields(kind, value, path, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise _bad(f"{path}: expected a list, got {value!r}", where)
        return tuple(_read(args[0], item, f"{path}[{k}]", where) for k, item in enumerate(value))
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and not abs(value) <= sys.float_info.max:
        raise _bad(f"{path}: it is not a finite number", where)
    if kind is float and number:
        return float(value)
    if kind is int and number and value == int(value):
        return int(value)
    if kind is str and isinstance(value, str):
        return value
    words = {float: "a number", int: "a whole number", str: "a string"}
    raise _bad(f"{path}: expected {words[kind]}, got {value!r}", where)


def _read_fields(kind: Any, value: dict[str, Any], path: str, where: str) -> Any:
    hints = typing.get_type_hints(kind)
    prefix = f"{path}." if path else ""
    for name in value:
        if name not in hints:
            near = difflib.get_close_matches(name, hints, 1)
            raise _bad(
                f"{prefix}{name}: there is no such field",
                where,
                f"did you mean {near[0]!r}?" if near else f"the fields are {', '.join(hints)}",
            )
    for item in dataclasses.fields(kind):
        required = item.default is item.default_factory is dataclasses.MISSING
        if required and item.name not in value:
            raise _bad(f"{path or 'it'}: the field {item.name!r} is missing", where)
    return kind(**{n: _read(hints[n], item, prefix + n, where) for n, item in value.items()})


def _bad(message: str, where: str, hint: str = "") -> UsageError:
    return UsageError(
        f"bad system description: {message}",
        code="bad-system",
        where=where,
        hint=hint or "docs/schema/system.v1.json describes the file; `lemurc probe` writes one",
    )
