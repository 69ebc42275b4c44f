"""Packages that add targets and devices: found by their entry points, imported when asked for.

    [project.entry-points."lemurc.targets"]
    mychip = "mychip.target:TARGET"           # a lemurc.targets.base.Target

    [project.entry-points."lemurc.devices"]
    mychip = "mychip.device:DRIVER"           # a lemurc.runtime.interface.Driver

The name of an entry point is the name of the target. Looking for packages imports none of
them, so one that is broken stands in the way of nobody who does not name it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lemurc.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

TARGETS = "lemurc.targets"
DEVICES = "lemurc.devices"


@dataclass(frozen=True)
class Plugin:
    """One entry point; `package` is "name version" of the distribution that has it."""

    name: str
    group: str
    package: str
    point: "EntryPoint"

    def load(self) -> Any:
        """What the entry point names; UsageError when that cannot be imported."""
        try:
            return self.point.load()
        except (Exception, SystemExit) as error:
            raise UsageError(
                f"the package {self.package}, which adds {self.name!r}, cannot be imported: "
                f"{type(error).__name__}: {error}",
                code="broken-plugin",
                where=f"entry point {self.point.value} of {self.group}",
                hint=f"repair or uninstall {self.package}, or do not name {self.name}",
            ) from error


def installed(group: str) -> dict[str, Plugin]:
    """The plug-ins of `group` by name; UsageError where two packages claim one."""
    from importlib.metadata import entry_points  # a tenth of the time that loading takes

    plugins: dict[str, Plugin] = {}
    for point in entry_points(group=group):
        plugin = Plugin(point.name, group, _package(point), point)
        other = plugins.setdefault(point.name, plugin)
        if other.point.value != point.value:
            raise UsageError(
                f"two packages add {point.name!r}: {other.package} and {plugin.package}",
                code="broken-plugin",
                where=f"entry points of {group}",
                hint="uninstall one of them",
            )
    return plugins


def _package(point: "EntryPoint") -> str:
    dist = point.dist
    return f"{dist.name} {dist.version}" if dist is not None else point.value
