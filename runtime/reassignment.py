"""A plan whose devices are not all here, with their stages on the devices that are."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from lemurc.manifest import HOST, Device, Manifest, Plan, Stage, Step

CanRun = Callable[[Stage, str], bool]
"""Whether a stage has code for a device of this machine."""


def reassigned(
    manifest: Manifest,
    plan: Plan,
    bound: Mapping[str, str | None],
    left: Mapping[str, str],
    can: CanRun,
) -> tuple[Plan, dict[str, str]] | None:
    """`plan`, with stages on other devices where theirs is `bound` to None or cannot run them,
    and the machine's device of each of its devices; None where a stage has no code for any.

    A stage goes to the first device that `can` run it: those that the plan keeps, in its order,
    then those `left` on the machine, by target. Times are no longer predicted.
    """
    targets = {device.name: device.target for device in plan.devices}
    offered = {
        device: (name, targets[name])
        for name, device in bound.items()
        if device not in (None, HOST)
    }
    for device, target in left.items():
        name = device
        while name in targets:
            name += "'"
        offered.setdefault(device, (name, target))

    def device_of(step: Step) -> str | None:
        stage, device = manifest.stages[step.stage], bound[step.device]
        if device == HOST or (device is not None and can(stage, device)):
            return step.device
        return next((name for d, (name, _) in offered.items() if can(stage, d)), None)

    steps: dict[str, tuple[Step, ...]] = {}
    for function, planned in plan.steps.items():
        homes = [device_of(step) for step in planned]
        if None in homes:
            return None
        moved = zip(planned, homes, strict=True)
        steps[function] = tuple(replace(step, device=home) for step, home in moved if home)
    used = {step.device for planned in steps.values() for step in planned}
    devices = {device.name: device for device in plan.devices if device.name in used}
    machine = {name: device for name, device in bound.items() if name in used and device}
    for device, (name, target) in offered.items():
        if name in used:
            devices.setdefault(name, Device(name, target))
            machine[name] = device
    return Plan(tuple(devices.values()), steps, {}), machine
