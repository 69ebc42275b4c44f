"""`--targets cpu:host,cuda:sm_80+sm_89` and the targets it may name."""

import difflib
import importlib
from dataclasses import dataclass
from importlib.metadata import entry_points

from lemurc.errors import UsageError
from lemurc.targets.base import Target

BUILTIN = ("cpu", "cuda", "rocm", "vulkan", "metal", "vmvx")
ENTRY_POINTS = "lemurc.targets"


@dataclass(frozen=True)
class TargetRequest:
    """A target and the architectures to compile for; `notes` are for the user to read."""

    target: Target
    archs: tuple[str, ...]
    notes: tuple[str, ...] = ()


def targets() -> dict[str, Target]:
    """Every target by name: ours, then those of installed packages."""
    found = {name: _builtin(name) for name in BUILTIN}
    for point in entry_points(group=ENTRY_POINTS):
        target = point.load()
        if not isinstance(target, Target):
            raise UsageError(
                f"entry point {point.name!r} is a {type(target).__name__}, not a Target",
                code="bad-target-plugin",
                where=f"{ENTRY_POINTS} of {point.dist.name if point.dist else point.value}",
                hint="let the entry point name a lemurc.targets.base.Target",
            )
        found.setdefault(target.name, target)
    return found


def get(name: str) -> Target:
    """The target called `name` or one of its aliases."""
    known = targets()
    for target in known.values():
        if name == target.name or name in target.aliases:
            return target
    names = [*known, *(alias for target in known.values() for alias in target.aliases)]
    raise UsageError(
        f"unknown target {name!r}",
        code="unknown-target",
        hint=_suggestion(name, names) or f"known targets: {', '.join(known)}",
    )


def parse_targets(text: str) -> tuple[TargetRequest, ...]:
    """Reads a comma-separated list of `target` or `target:arch+arch`."""
    requests: dict[str, TargetRequest] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, arch_text = item.partition(":")
        target = get(name.strip().lower())
        wanted = [arch for arch in arch_text.split("+") if arch] or list(target.default)
        archs: list[str] = []
        notes: list[str] = []
        if target.name in requests:
            archs += requests[target.name].archs
            notes += requests[target.name].notes
        for arch in wanted:
            resolved, note = _architecture(target, arch.strip().lower())
            if resolved not in archs:
                archs.append(resolved)
            notes += [note] if note else []
        requests[target.name] = TargetRequest(target, tuple(archs), tuple(notes))
    if not requests:
        raise UsageError("no target given", code="no-target", hint="try --targets cpu")
    return tuple(requests.values())


def _architecture(target: Target, name: str) -> tuple[str, str]:
    if target.resolve is not None and (here := target.resolve(name)) != name:
        return here, f"{target.name}:{name} is {here} on this machine"
    if name in target.same_as:
        other = target.same_as[name]
        return other, f"{target.name}:{name} is compiled as {other}, the newest IREE 3.13 knows"
    found = target.architecture(name)
    if found is not None:
        return found.name, ""
    names = [arch.name for arch in target.architectures]
    every = [*names, *target.same_as, *(a for arch in target.architectures for a in arch.aliases)]
    raise UsageError(
        f"unknown architecture {name!r} of target {target.name!r}",
        code="unknown-target",
        hint=_suggestion(name, every) or f"known architectures: {', '.join(names)}",
    )


def _builtin(name: str) -> Target:
    target = importlib.import_module(f"lemurc.targets.{name}").TARGET
    assert isinstance(target, Target)
    return target


def _suggestion(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else ""
