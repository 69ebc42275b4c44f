"""Loading the stages of a plan on its devices."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from lemurc.errors import DeviceError, LemurcError
from lemurc.manifest import HOST, Manifest, ModuleFile, Plan, Stage
from lemurc.runtime.artifact import Artifact
from lemurc.runtime.devices import OpenDevice
from lemurc.runtime.executor import StageExecutor
from lemurc.runtime.host_operators import HostExecutor
from lemurc.runtime.layout import Executors
from lemurc.runtime.loading import within
from lemurc.runtime.placement import modules_for
from lemurc.runtime.plugin_executor import PluginExecutor, Uploaded

T = TypeVar("T")

TINY_OPS = 200_000
TINY_BYTES = 1 << 20
"""Up to here one thread is done before a second one is awake."""


def load_stages(
    artifact: Artifact, plan: Plan, devices: Mapping[str, OpenDevice], seconds: float | None = None
) -> Executors:
    """An executor for each stage and device of `plan`; `devices` are by the plan's names.

    DeviceError where a stage is not loaded within so many seconds.
    """
    executors: Executors = {}
    uploaded: Uploaded = {}
    for steps in plan.steps.values():
        for step in steps:
            key = step.stage, step.device
            if key in executors:
                continue
            stage = artifact.manifest.stages[step.stage]
            if stage.host is not None:
                executors[key] = HostExecutor(artifact, step.stage, stage)
                continue
            device = devices[step.device]
            load = partial(_load, artifact, step.stage, stage, device, uploaded)
            executors[key] = within(seconds, load, f"load stage {step.stage}", device.name)
    return executors


def _load(
    artifact: Artifact, name: str, stage: Stage, device: OpenDevice, uploaded: Uploaded
) -> StageExecutor | PluginExecutor:
    if device.plugin is None:
        return load_stage(artifact, name, stage, device)
    load = partial(PluginExecutor, artifact, name, stage, device=device, uploaded=uploaded)
    return _first(modules_for(stage, device.target), load)


def load_stage(artifact: Artifact, name: str, stage: Stage, device: OpenDevice) -> StageExecutor:
    """`stage` by the first of its modules that `device` takes; raises why the last is refused.

    DeviceError at once where it is the device that fails.
    """
    load = partial(StageExecutor, artifact, name, stage, device=device)
    return _first(modules_for(stage, device.target), load)


def _first(modules: Sequence[ModuleFile], load: Callable[[ModuleFile], T]) -> T:
    for module in modules[:-1]:
        try:
            return load(module)
        except DeviceError:
            raise
        except LemurcError:
            continue  # made for another chip of this kind
    return load(modules[-1])


def is_tiny(manifest: Manifest, plan: Plan) -> bool:
    """Whether waking a worker thread would cost more than the whole plan, on one device."""
    if sum(device.target != HOST for device in plan.devices) != 1:
        return False
    costs = [manifest.stages[step.stage].cost for steps in plan.steps.values() for step in steps]
    moved = [cost.bytes_read + cost.bytes_written for cost in costs]
    return all(moved) and sum(moved) <= TINY_BYTES and sum(c.flops for c in costs) <= TINY_OPS
