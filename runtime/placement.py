"""Choosing a plan by the devices found, and a module of each stage by architecture."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lemurc.errors import DeviceError
from lemurc.manifest import HOST, Manifest, ModuleFile, Plan, Stage
from lemurc.runtime import cpu_features
from lemurc.runtime.devices import HOST_TARGETS, Inventory, discover, is_software, kinds
from lemurc.runtime.reassignment import reassigned


class LemurcWarning(UserWarning):
    """Something works, though not as it was compiled to: the message names the cause."""


@dataclass(frozen=True)
class Choice:
    """A plan, the machine's device for each of its devices, and why not an earlier plan."""

    plan: Plan
    bound: dict[str, str]
    passed_over: tuple[str, ...]


@dataclass(frozen=True)
class DevicePlacement:
    """What one device does in a call of one function."""

    device: str
    description: str
    stages: tuple[str, ...]
    ops: int
    kinds: dict[str, int]
    share: float
    archs: tuple[str, ...]


@dataclass(frozen=True)
class Placement:
    """What runs where, and why not elsewhere."""

    function: str
    devices: tuple[DevicePlacement, ...]
    ops: int
    crossings: int
    transfer_bytes: int
    passed_over: tuple[str, ...] = ()
    predicted: bool = True
    """Whether shares and bytes are those that were planned; else shares are those of stages."""

    def line(self) -> str:
        """cuda:0 391/412 ops, 96% of predicted time; cpu 21 ops (sort x3, ...); ...

        Operators that PyTorch runs are all named.
        """
        parts = []
        for number, device in enumerate(self.devices):
            if device.device == HOST:
                names = [f"{op} x{n}" if n > 1 else op for op, n in sorted(device.kinds.items())]
                parts.append(f"{HOST} (PyTorch): {', '.join(names)}")
            elif number == 0:
                share = f", {device.share:.0%} of predicted time" if self.predicted else ""
                parts.append(f"{device.device} {device.ops}/{self.ops} ops{share}")
            else:
                common = Counter(device.kinds).most_common(3)
                kinds = ", ".join(f"{kind} x{n}" if n > 1 else kind for kind, n in common)
                more = ", ..." if len(device.kinds) > 3 else ""
                parts.append(f"{device.device} {device.ops} ops ({kinds}{more})")
        plural = "" if self.crossings == 1 else "s"
        size = f", {_size(self.transfer_bytes)}" if self.predicted else ""
        parts.append(f"{self.crossings} crossing{plural}{size}")
        return "; ".join(parts)


def choose(
    manifest: Manifest,
    wanted: Sequence[str] | None,
    excluded: frozenset[str] = frozenset(),
    inventory: Inventory | None = None,
) -> Choice:
    """The first plan whose devices are here, allowed by `wanted`, and not `excluded`.

    Where there is none, the first one whose stages other devices can take over. Devices that
    are software come last unless `wanted`, or a pin when it was compiled, names them.
    """
    targets = targets_of(manifest)
    for name in wanted or ():
        kind = name.partition(":")[0]
        if kind not in targets and kind not in kinds():
            raise DeviceError(
                f"unknown device {name!r}; found {_listed(discover(kinds()))}",
                code="unknown-device",
                hint=f"devices are called {', '.join(f'{kind}:0' for kind in kinds())}",
            )
    _refuse_unplanned_numbers(manifest, wanted or ())
    found = inventory or discover(targets)
    slow = frozenset(
        name for name, text in found.descriptions.items() if is_software(text) and wanted is None
    )
    passed_over: list[str] = []
    for avoided in (slow, frozenset[str]()) if slow else (slow,):
        passed_over = []  # what stood in the way only at first does so no longer
        for plan in manifest.plans:
            bound, why = _bind(manifest, plan, found, wanted, excluded, avoided)
            if bound is not None:
                return Choice(plan, bound, tuple(passed_over))
            names = ", ".join(d.name for d in plan.devices if d.target != HOST)
            passed_over.append(f"the plan for {names}: {why}")
    moved = _reassigned(manifest, found, wanted, excluded)
    if moved is not None:
        return Choice(*moved, tuple(passed_over))
    everything = inventory or discover(kinds())
    reasons = [*_why_not_wanted(targets, wanted or (), everything), *passed_over]
    raise DeviceError(
        f"this artifact was compiled for {', '.join(targets) or 'nothing'}, and none of its "
        f"plans can run here; found {_listed(everything)}"
        + "".join(f"\n  {reason}" for reason in reasons),
        code="no-device",
        hint=_way_out(manifest, wanted, excluded, everything),
    )


def _refuse_unplanned_numbers(manifest: Manifest, wanted: Sequence[str]) -> None:
    """`cpu:7` for an artifact whose plans have one CPU device: there are no more than that."""
    for name in wanted:
        target, _, number = name.partition(":")
        if target not in HOST_TARGETS or not number:
            continue
        most = max(sum(d.target == target for d in plan.devices) for plan in manifest.plans)
        here = [f"{target}:{k}" for k in range(max(1, most))]
        if name not in here:
            raise DeviceError(
                f"there is no device {name} for this artifact, only {', '.join(here)}",
                code="no-device",
                where=name,
                hint=f"ask for {' or '.join(here)}",
            )


def targets_of(manifest: Manifest) -> tuple[str, ...]:
    """The kinds of devices that plans use, but for the host, which is always here."""
    found = dict.fromkeys(d.target for plan in manifest.plans for d in plan.devices)
    return tuple(target for target in found if target != HOST)


def modules_for(stage: Stage, target: str) -> list[ModuleFile]:
    """The modules of a stage that may run on this machine's `target`, best first."""
    modules = [module for module in stage.modules if module.target == target]
    if target == "cpu":
        order = {arch: rank for rank, arch in enumerate(cpu_features.supported_archs())}
        modules = [module for module in modules if module.arch in order]
        return sorted(modules, key=lambda module: order[module.arch])
    if target == "cuda":
        # PTX runs on every newer chip; what a chip is too old for fails to load.
        return sorted(modules, key=lambda module: _sm_number(module.arch), reverse=True)
    return modules


def _bind(
    manifest: Manifest,
    plan: Plan,
    found: Inventory,
    wanted: Sequence[str] | None,
    excluded: frozenset[str],
    avoided: frozenset[str],
) -> tuple[dict[str, str] | None, str]:
    """The machine's device for each device of the plan, or None and why.

    None is `excluded`; one that is `avoided` only serves where the user asked for it.
    """
    bound = _devices_for(plan, found, wanted, excluded, avoided)
    for device in plan.devices:
        if bound[device.name] is None:
            preferred = _preferred_names(plan)[device.name]
            return None, _why_not(device.target, preferred, found, wanted, excluded)
    kinds = {device.name: device.target for device in plan.devices}
    for steps in plan.steps.values():
        for step in steps:
            target = kinds[step.device]
            if target != HOST and not modules_for(manifest.stages[step.stage], target):
                archs = sorted(
                    {m.arch for m in manifest.stages[step.stage].modules if m.target == target}
                )
                have = ", ".join(cpu_features.supported_archs()) or "none known"
                return None, (
                    f"{step.stage} has code for {target} {', '.join(archs) or '(none)'}, "
                    f"this machine runs {have if target == 'cpu' else 'something else'}"
                )
    return {name: device for name, device in bound.items() if device is not None}, ""


def _reassigned(
    manifest: Manifest, found: Inventory, wanted: Sequence[str] | None, excluded: frozenset[str]
) -> tuple[Plan, dict[str, str]] | None:
    """The first plan whose stages all have code for devices that are left; software comes last."""
    targets = {
        name: target
        for target in targets_of(manifest)
        for name in _candidates(target, "", found, wanted)
        if name not in excluded
    }
    left = sorted(targets, key=lambda name: is_software(found.descriptions.get(name, "")))

    def can(stage: Stage, device: str) -> bool:
        return bool(modules_for(stage, device.partition(":")[0]))

    for plan in manifest.plans:
        bound = _devices_for(plan, found, wanted, excluded, frozenset())
        moved = reassigned(manifest, plan, bound, {name: targets[name] for name in left}, can)
        if moved is not None:
            return moved
    return None


def _devices_for(
    plan: Plan,
    found: Inventory,
    wanted: Sequence[str] | None,
    excluded: frozenset[str],
    avoided: frozenset[str],
) -> dict[str, str | None]:
    """The machine's device for each device of the plan, or None where there is none for it."""
    bound: dict[str, str | None] = {}
    preferred = _preferred_names(plan)
    for device in plan.devices:
        if device.target == HOST:
            bound[device.name] = HOST
            continue
        out = excluded if device.asked else excluded | avoided
        free = [
            name
            for name in _candidates(device.target, preferred[device.name], found, wanted)
            if name not in bound.values() and name not in out
        ]
        bound[device.name] = free[0] if free else None
    return bound


def _preferred_names(plan: Plan) -> dict[str, str]:
    """A plan may call its devices what it likes; the machine's are target:number."""
    names: dict[str, str] = {}
    ordinals: Counter[str] = Counter()
    for device in plan.devices:
        numbered = re.fullmatch(rf"{device.target}:\d+", device.name)
        names[device.name] = (
            device.name if numbered else f"{device.target}:{ordinals[device.target]}"
        )
        ordinals[device.target] += 1
    return names


def _candidates(
    target: str, name: str, found: Inventory, wanted: Sequence[str] | None
) -> list[str]:
    here = list(found.names.get(target, ()))
    if target in HOST_TARGETS and here and ":" in name and name not in here:
        # Logical CPU devices exist as soon as they are asked for.
        here = [name, *here]
    if wanted is None:
        return sorted(here, key=lambda candidate: candidate != name)
    named = [want for want in wanted if want.partition(":")[0] == target and ":" in want]
    if target in wanted:
        return named + [candidate for candidate in here if candidate not in named]
    return [want for want in named if target in HOST_TARGETS or want in here]


def _why_not(
    target: str,
    name: str,
    found: Inventory,
    wanted: Sequence[str] | None,
    excluded: frozenset[str],
) -> str:
    here = found.names.get(target, ())
    failed = [candidate for candidate in (*here, name) if candidate in excluded]
    if failed:
        return f"{failed[0]} failed"
    for candidate in here if wanted is None else ():
        if is_software(found.descriptions.get(candidate, "")):
            return f"{candidate} ({found.descriptions[candidate]}) is software, chosen last"
    if target in found.why_not:
        return found.why_not[target]
    if wanted is not None and not any(want.partition(":")[0] == target for want in wanted):
        return f"{name} is not among devices={list(wanted)}"
    return f"{name} is not here, only {', '.join(here) or f'no {target}'}"


def _way_out(
    manifest: Manifest, wanted: Sequence[str] | None, excluded: frozenset[str], found: Inventory
) -> str:
    for target in targets_of(manifest):
        package = manifest.producer.get(f"target {target}")
        if package is not None and target not in kinds():
            return f"install {package}, which made the code for {target} and adds its devices"
    asked = "" if wanted is None else f"devices={list(wanted)}"
    for plan in manifest.plans if asked else ():
        bound, _ = _bind(manifest, plan, found, None, excluded, frozenset())
        if bound is not None:
            return f"without {asked} it runs on {', '.join(bound.values())}"
    return "compile with --targets for a device that is here (cpu always is)"


def _why_not_wanted(
    targets: Sequence[str], wanted: Sequence[str], found: Inventory
) -> Iterator[str]:
    """What stands against each device that was asked for."""
    for name in wanted:
        target = name.partition(":")[0]
        if not found.names.get(target):
            reason = found.why_not.get(target, "")
            yield f"there is no {name}: {reason or f'no {target} device found'}"
        elif target not in targets:
            yield f"{name} is here, but the artifact holds no code for {target}"


def _listed(found: Inventory) -> str:
    here = sorted(name for names in found.names.values() for name in names)
    return ", ".join(here) or "no device"


def _sm_number(arch: str) -> int:
    number = re.search(r"\d+", arch)
    return int(number.group()) if number else 0


def _size(count: int) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} B"
