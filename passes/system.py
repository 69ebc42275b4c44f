"""The devices a program may run on, as the module attribute `lemur.system` says.

    lemur.system = {
      devices = [{name = "cpu", target = "cpu", flops = {f32 = 1.5e11}, bandwidth = 2.0e10,
                  launch = 1.0e-5, memory = 17179869184 : i64,
                  illegal_types = ["f64"], illegal_kinds = ["attention"]}],
      links = [{src = "cpu", dst = "vulkan", bandwidth = 8.0e9, latency = 2.0e-5}],
      pins = [["encoder.layer.0.*", "vulkan"]]}

Seconds, bytes and operations; everything but the names has a default. A link that is
not given is a slow one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch_mlir import ir

from lemurc.errors import UsageError


@dataclass(frozen=True)
class Device:
    name: str
    target: str
    flops: Mapping[str, float] = field(default_factory=dict)
    bandwidth: float = 2.0e10
    launch: float = 1.0e-5
    memory: int | None = None
    illegal_types: frozenset[str] = frozenset()
    illegal_kinds: frozenset[str] = frozenset()

    def peak(self, dtype: str) -> float:
        """Operations per second on `dtype`; a type not given runs as fast as f32."""
        return self.flops.get(dtype) or self.flops.get("f32") or 1.0e11


@dataclass(frozen=True)
class Link:
    src: str
    dst: str
    bandwidth: float = 4.0e9
    latency: float = 5.0e-5

    def seconds(self, size: int) -> float:
        return self.latency + size / self.bandwidth


@dataclass(frozen=True)
class System:
    devices: tuple[Device, ...]
    links: tuple[Link, ...] = ()
    pins: tuple[tuple[str, str], ...] = ()

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
        links = tuple(Link(**item) for item in plain.get("links", []))
        pins = tuple((glob, name) for glob, name in plain.get("pins", []))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"malformed 'lemur.system': {error}",
            code="bad-system",
            hint="devices = [{name = ..., target = ...}], links = [{src = ..., dst = ...}], "
            "pins = [[glob, device]]",
        ) from error
    names = [device.name for device in devices]
    if not names or len(set(names)) < len(names):
        raise UsageError(
            f"'lemur.system' needs devices with distinct names, not {names}", code="bad-system"
        )
    return System(devices, links, pins)


def _device(item: dict[str, Any]) -> Device:
    sets: dict[str, Any] = {
        key: frozenset(item[key]) for key in ("illegal_types", "illegal_kinds") if key in item
    }
    return Device(**(item | sets))


def _plain(attribute: Any) -> Any:
    if isinstance(attribute, ir.DictAttr):
        return {named.name: _plain(named.attr) for named in attribute}
    if isinstance(attribute, ir.ArrayAttr):
        return [_plain(item) for item in attribute]
    return attribute.value
