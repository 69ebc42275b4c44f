"""`--targets cpu:host,cuda:sm_80+sm_89` and the targets it may name."""

import contextlib
import difflib
import importlib
from dataclasses import dataclass

from lemurc.errors import UsageError
from lemurc.plugins import TARGETS, Plugin, installed
from lemurc.targets.base import Target

BUILTIN = ("cpu", "cuda", "rocm", "vulkan", "metal", "vmvx")


@dataclass(frozen=True)
class TargetRequest:
    """A target and the architectures to compile for; `notes` are for the user to read."""

    target: Target
    archs: tuple[str, ...]
    notes: tuple[str, ...] = ()


def targets() -> dict[str, Target]:
    """Every target by name: ours, then those of installed packages, but for broken ones."""
    found = {name: _builtin(name) for name in BUILTIN}
    for name, plugin in _plugins().items():
        with contextlib.suppress(UsageError):
            found[name] = _plugged_in(plugin)
    return found


def broken() -> dict[str, UsageError]:
    """What is wrong with the targets of installed packages that cannot be used, by name."""
    errors: dict[str, UsageError] = {}
    for name, plugin in _plugins().items():
        try:
            _plugged_in(plugin)
        except UsageError as error:
            errors[name] = error
    return errors


def get(name: str) -> Target:
    """The target called `name` or one of its aliases."""
    if name in BUILTIN:
        return _builtin(name)
    ours = {builtin: _builtin(builtin) for builtin in BUILTIN}
    for target in ours.values():
        if name in target.aliases:
            return target
    others = _plugins()
    if name in others:
        return _plugged_in(others[name])
    names = [*ours, *others, *(alias for target in ours.values() for alias in target.aliases)]
    raise UsageError(
        f"unknown target {name!r}",
        code="unknown-target",
        hint=_suggestion(name, names) or f"known targets: {', '.join([*ours, *others])}",
    )


def package_of(name: str) -> str:
    """ "name version" of the package that adds the target `name`; "" for ours."""
    plugin = _plugins().get(name)
    return plugin.package if plugin is not None else ""


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


def _plugins() -> dict[str, Plugin]:
    """By the name of the target; names of ours are ours."""
    return {name: plugin for name, plugin in installed(TARGETS).items() if name not in BUILTIN}


def _plugged_in(plugin: Plugin) -> Target:
    target = plugin.load()
    if not isinstance(target, Target):
        wrong = f"is a {type(target).__name__}, not a Target"
    elif target.name != plugin.name:
        wrong = f"is a Target called {target.name!r}"
    else:
        return target
    raise UsageError(
        f"entry point {plugin.name!r} {wrong}",
        code="bad-target-plugin",
        where=f"{TARGETS} of {plugin.package}",
        hint="let the entry point name a lemurc.targets.base.Target of its own name",
    )


def _builtin(name: str) -> Target:
    target = importlib.import_module(f"lemurc.targets.{name}").TARGET
    assert isinstance(target, Target)
    return target


def _suggestion(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else ""
