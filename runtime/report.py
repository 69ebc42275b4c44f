"""What a loaded session says about its placement."""

from collections import Counter
from collections.abc import Mapping, Sequence

from lemurc.manifest import HOST, Manifest, Plan, Step
from lemurc.runtime.devices import OpenDevice
from lemurc.runtime.layout import Executors
from lemurc.runtime.placement import Choice, DevicePlacement, Placement


def placement_of(
    manifest: Manifest,
    choice: Choice,
    function: str,
    devices: Mapping[str, OpenDevice],
    executors: Executors,
) -> Placement:
    """The placement of one function, busiest device first."""
    steps = choice.plan.steps[function]
    predicted = choice.plan.predicted.get(function)
    seconds = dict(predicted.seconds_by_device) if predicted else {}
    total = sum(seconds.values())
    rows = []
    for name, device in devices.items():
        here = [step for step in steps if step.device == name]
        kinds: Counter[str] = Counter()
        for step in here:
            kinds.update(manifest.stages[step.stage].ops)
        ops = sum(kinds.values())
        if total:
            share = seconds.get(name, 0.0) / total
        else:
            share = len(here) / len(steps) if steps else 0.0
        archs = sorted({executors[step.stage, name].arch for step in here})
        rows.append(
            DevicePlacement(
                device=device.name,
                description=device.description,
                stages=tuple(step.stage for step in here),
                ops=ops,
                kinds=dict(kinds),
                share=share,
                archs=tuple(archs),
            )
        )
    rows.sort(key=lambda row: (row.device == HOST, -row.share, row.device))
    return Placement(
        function=function,
        devices=tuple(row for row in rows if row.stages) or tuple(rows[:1]),
        ops=sum(row.ops for row in rows),
        crossings=predicted.crossings if predicted else _crossings(manifest, steps),
        transfer_bytes=predicted.transfer_bytes if predicted else 0,
        passed_over=choice.passed_over,
        predicted=predicted is not None,
    )


def _crossings(manifest: Manifest, steps: Sequence[Step]) -> int:
    """Values of one device that another one reads, once for each that does."""
    made = {ref: step.device for step in steps for ref in manifest.stages[step.stage].outputs}
    return len(
        {
            (reference, step.device)
            for step in steps
            for reference in manifest.stages[step.stage].inputs
            if made.get(reference, step.device) != step.device
        }
    )


def planned(manifest: Manifest, plan: Plan, function: str) -> Placement:
    """What `plan` will do, without a device."""
    predicted = plan.predicted.get(function)
    total = sum(predicted.seconds_by_device.values()) if predicted else 0.0
    rows = []
    for device in plan.devices:
        here = [step for step in plan.steps[function] if step.device == device.name]
        kinds: Counter[str] = Counter()
        for step in here:
            kinds.update(manifest.stages[step.stage].ops)
        seconds = predicted.seconds_by_device.get(device.name, 0.0) if predicted else 0.0
        rows.append(
            DevicePlacement(
                device=device.name,
                description=device.target,
                stages=tuple(step.stage for step in here),
                ops=sum(kinds.values()),
                kinds=dict(kinds),
                share=seconds / total if total else 1.0 / len(plan.devices),
                archs=(),
            )
        )
    rows.sort(key=lambda row: (row.device == HOST, -row.share, row.device))
    return Placement(
        function=function,
        devices=tuple(rows),
        ops=sum(row.ops for row in rows),
        crossings=predicted.crossings if predicted else 0,
        transfer_bytes=predicted.transfer_bytes if predicted else 0,
    )
