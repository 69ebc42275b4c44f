"""What measured operations and stages took, kept between compilations.

One file of the cache for each kind of device and number of threads. A *stage* is known by
its content, an *operation* by what the cost model is told of it, so that what one model was
measured to take predicts another. Of several measurements the least counts: other programs
only ever add.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lemurc.cost_model import Sample
from lemurc.manifest import Workload, build
from lemurc.targets.cache import default_directory
from lemurc.together import Group, together

MOST_STAGES = 4096
MOST_SAMPLES = 2048
_COMPILER = "iree-base-compiler"


@dataclass(frozen=True)
class DeviceKey:
    """Whose times these are: `description` is the processor's or the device's own name."""

    target: str
    description: str
    threads: int = 0


@dataclass(frozen=True)
class Profile:
    """`call` is what a stage costs besides its operations, None before it was measured.

    `groups` are stages of several operations, by content.
    """

    device: DeviceKey
    compiler: str
    stages: dict[str, float] = field(default_factory=dict)
    samples: tuple[Sample, ...] = ()
    call: float | None = None
    groups: dict[str, Group] = field(default_factory=dict)

    def figures(self) -> dict[str, Any]:
        """The part that the attribute `lemur.system` takes."""
        rows = [[*dataclasses.astuple(s.work)[:-1], s.seconds] for s in self.samples]
        known: dict[str, Any] = {"samples": rows, "together": together(self.groups.values())}
        return known if self.call is None else known | {"call": self.call}


def read(target: str, description: str, threads: int) -> Profile | None:
    """That of as many threads; what another compiler's code took, or cannot be read, is none."""
    path = _path(DeviceKey(target, description, threads))
    try:
        profile = build(Profile, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    assert isinstance(profile, Profile)
    return profile if profile.compiler == _versions() else None


def add(
    device: DeviceKey,
    *,
    stages: Mapping[str, float] | None = None,
    samples: Mapping[Workload, float] | None = None,
    call: float | None = None,
    groups: Mapping[str, Group] | None = None,
) -> Profile:
    """Join new measurements with those there are and write the file whole."""
    old = read(device.target, device.description, device.threads)
    old = old or Profile(device, _versions())
    times = {sample.work: sample.seconds for sample in old.samples}
    profile = Profile(
        device,
        old.compiler,
        stages=_joined(old.stages, stages or {}, MOST_STAGES),
        samples=tuple(
            Sample(work, seconds)
            for work, seconds in _joined(times, samples or {}, MOST_SAMPLES).items()
        ),
        call=min((c for c in (old.call, call) if c is not None), default=None),
        groups=_quickest(old.groups, groups or {}),
    )
    _write(_path(device), profile)
    return profile


def _joined(old: Mapping[Any, float], new: Mapping[Any, float], most: int) -> dict[Any, float]:
    """The least of each; the newest `most`."""
    kept = {key: seconds for key, seconds in old.items() if key not in new}
    kept |= {key: min(seconds, old.get(key, seconds)) for key, seconds in new.items()}
    return dict(list(kept.items())[-most:])


def _quickest(old: dict[str, Group], new: Mapping[str, Group]) -> dict[str, Group]:
    kept = {key: group for key, group in old.items() if key not in new}
    for key, group in new.items():
        kept[key] = min(group, old.get(key, group), key=lambda g: g.seconds)
    return dict(list(kept.items())[-MOST_STAGES:])


def _path(device: DeviceKey) -> Path:
    words = f"{device.description}\n{device.threads}"
    digest = hashlib.sha256(words.encode()).hexdigest()[:12]
    return default_directory() / "profiles" / f"{device.target}-{digest}.json"


def _versions() -> str:
    """What decides the code that was measured."""
    from lemurc import __version__

    return f"lemurc {__version__}, {_COMPILER} {version(_COMPILER)}"


def _write(path: Path, profile: Profile) -> None:
    """A cache that cannot be written to keeps nothing."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(dataclasses.asdict(profile), file)
            os.replace(name, path)
        finally:
            Path(name).unlink(missing_ok=True)
