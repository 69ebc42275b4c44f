"""One stage, loaded on a device of a plug-in."""

from collections.abc import Sequence

import numpy as np

from lemurc.errors import DeviceError
from lemurc.manifest import ModuleFile, Stage
from lemurc.runtime.artifact import Artifact
from lemurc.runtime.devices import OpenDevice
from lemurc.runtime.interface import Buffer, Submission
from lemurc.runtime.plugin_devices import guarded, refused_code

Uploaded = dict[tuple[str, str], Buffer]
"""Weights on devices, by names of both: stages that read one weight share it."""


class PluginWork:
    """A submission, whose failure to end is one of `device`."""

    def __init__(self, submission: Submission, doing: str, device: str) -> None:
        self._submission = submission
        self._doing = doing
        self._device = device
        self.done = False

    def wait(self) -> None:
        try:
            with guarded(self._doing, self._device):
                self._submission.wait()
        finally:
            self.done = True


class PluginExecutor:
    """`submit` queues the stage; the device runs it after what was submitted before."""

    def __init__(
        self,
        artifact: Artifact,
        name: str,
        stage: Stage,
        module: ModuleFile,
        device: OpenDevice,
        uploaded: Uploaded,
    ) -> None:
        assert device.plugin is not None
        self.name = name
        self.device = device
        self.module = module
        self._doing = f"run stage {name}"
        self._results = len(stage.outputs)
        weights = [
            _weight(artifact, parameter, device, uploaded) for parameter in module.parameters
        ]
        try:
            self._executable = device.plugin.load(artifact.entry(module.file), weights)
        except Exception as error:
            raise refused_code(error, name, device.name) from error

    @property
    def arch(self) -> str:
        return self.module.arch

    def submit(self, inputs: Sequence[Buffer]) -> tuple[Sequence[Buffer], PluginWork]:
        with guarded(self._doing, self.device.name):
            submission = self._executable.submit(inputs)
            outputs = submission.outputs
        if len(outputs) != self._results:
            raise DeviceError(
                f"{self.device.name} gives {len(outputs)} results of stage {self.name}, "
                f"which has {self._results}",
                code="device-failed",
                where=self.device.name,
                hint="report this to the authors of the device; leave it out with devices=",
            )
        return outputs, PluginWork(submission, self._doing, self.device.name)


def upload(device: OpenDevice, array: np.ndarray) -> Buffer:
    assert device.plugin is not None
    with guarded("copy a tensor to the device", device.name):
        return device.plugin.upload(np.ascontiguousarray(array).reshape(array.shape))


def _weight(artifact: Artifact, name: str, device: OpenDevice, uploaded: Uploaded) -> Buffer:
    key = (device.name, name)
    if key not in uploaded:
        uploaded[key] = upload(device, artifact.weight(name))
    return uploaded[key]
