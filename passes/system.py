"""The devices a program may run on, as the module attribute `lemur.system` says.

    lemur.system = {
      devices = [{name = "cpu", target = "cpu", flops = {f32 = 1.5e11}, bandwidth = 2.0e10,
                  launch = 1.0e-5, memory = 17179869184 : i64,
                  illegal_types = ["f64"], illegal_kinds = ["attention"]}],
      links = [{src = "cpu", dst = "vulkan", latency = 2.0e-5,
                bandwidth = {"65536" = 2.0e9, "1048576" = 8.0e9}}],
      pins = [["encoder.layer.0.*", "vulkan"]], forbids = [["kind:softmax", "vulkan"]]}

Seconds, bytes and operations; everything but the names has a default. Rates are numbers,
or dictionaries by element type and, for links, by size. A link that is not given is a slow
one.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch_mlir import ir

from lemurc.cost_model import Figures, Sample
from lemurc.errors import UsageError
from lemurc.manifest import Workload
from lemurc.system_file import UNKNOWN_LATENCY, UNKNOWN_RATE

HOST_MEMORY = "host memory"
"""One end of links in a system without a CPU: inputs come from there, results go there."""

_FIGURES = frozenset(item.name for item in dataclasses.fields(Figures))


@dataclass(frozen=True)
class Device:
    """`memory_known` is false of what devices of a target typically have: that guides choices,
    and where there is none nobody is refused for it."""

    name: str
    target: str
    figures: Figures = Figures()
    memory: int | None = None
    memory_known: bool = True
    illegal_types: frozenset[str] = frozenset()
    illegal_kinds: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Link:
    """`bandwidth` is in bytes per second, by the bytes moved."""

    src: str
    dst: str
    bandwidth: Mapping[int, float] = field(default_factory=lambda: {1: UNKNOWN_RATE})
    latency: float = UNKNOWN_LATENCY

    def seconds(self, size: int) -> float:
        return self.latency + size / self.rate(size)

    def rate(self, size: int) -> float:
        """That of the largest measured size up to `size`, or of the smallest there is."""
        below = [known for known in self.bandwidth if known <= size]
        return self.bandwidth[max(below) if below else min(self.bandwidth)]


@dataclass(frozen=True)
class System:
    devices: tuple[Device, ...]
    links: tuple[Link, ...] = ()
    pins: tuple[tuple[str, str], ...] = ()
    forbids: tuple[tuple[str, str], ...] = ()
    """By the name of a device or a target, all of whose devices are meant."""

    def device(self, name: str) -> Device:
        return next(device for device in self.devices if device.name == name)

    def names(self) -> list[str]:
        return [device.name for device in self.devices]

    def link(self, src: str, dst: str) -> Link:
        """Links go both ways unless the way back is given too."""
        for a, b in ((src, dst), (dst, src)):
            for link in self.links:
                if (link.src, link.dst) == (a, b):
                    return link
        return Link(src, dst)


DEFAULT = System((Device("cpu", "cpu"),))


def read(module: ir.Operation) -> System:
    """The system of a module; one CPU when it names none."""
    if "lemur.system" not in module.attributes:
        return DEFAULT
    try:
        plain = _plain(module.attributes["lemur.system"])
        devices = tuple(_device(item) for item in plain["devices"])
        links = tuple(_link(item) for item in plain.get("links", []))
        pins = tuple((selector, name) for selector, name in plain.get("pins", []))
        forbids = tuple((selector, name) for selector, name in plain.get("forbids", []))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"malformed 'lemur.system': {error}",
            code="bad-system",
            hint="devices = [{name = ..., target = ...}], links = [{src = ..., dst = ...}], "
            "pins = [[selector, device]], forbids = [[selector, device]]",
        ) from error
    names = [device.name for device in devices]
    if not names or len(set(names)) < len(names):
        raise UsageError(
            f"'lemur.system' needs devices with distinct names, not {names}", code="bad-system"
        )
    return System(devices, links, pins, forbids)


def _device(item: dict[str, Any]) -> Device:
    figures = {key: value for key, value in item.items() if key in _FIGURES}
    for key in ("flops", "bandwidth"):
        if key in figures and not isinstance(figures[key], dict):
            figures[key] = {"f32": figures[key]}
    if "tile" in figures:
        figures["tile"] = tuple(figures["tile"])
    if "samples" in figures:
        figures["samples"] = tuple(
            Sample(Workload(kind, dtype, flops, read, written, tuple(shape)), seconds)
            for kind, dtype, flops, read, written, shape, seconds in figures["samples"]
        )
    rest: dict[str, Any] = {key: value for key, value in item.items() if key not in _FIGURES}
    sets: dict[str, Any] = {
        key: frozenset(item[key]) for key in ("illegal_types", "illegal_kinds") if key in item
    }
    return Device(**(rest | sets), figures=Figures(**figures))


def _link(item: dict[str, Any]) -> Link:
    rates = item.get("bandwidth")
    if isinstance(rates, dict):
        item = item | {"bandwidth": {int(size): rate for size, rate in rates.items()}}
    elif rates is not None:
        item = item | {"bandwidth": {1: rates}}
    return Link(**item)


def _plain(attribute: Any) -> Any:
    if isinstance(attribute, ir.DictAttr):
        return {named.name: _plain(named.attr) for named in attribute}
    if isinstance(attribute, ir.ArrayAttr):
        return [_plain(item) for item in attribute]
    return attribute.value
