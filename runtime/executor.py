"""One stage, loaded on one device."""

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import iree.runtime as rt

from lemurc.errors import ArtifactError
from lemurc.manifest import ModuleFile, Stage
from lemurc.runtime import loans
from lemurc.runtime.artifact import Artifact
from lemurc.runtime.devices import OpenDevice
from lemurc.runtime.iree_errors import translated

_instance: Any = None
_instance_lock = threading.Lock()


def vm_instance() -> Any:
    """IREE's virtual machine, one per process."""
    global _instance
    with _instance_lock:
        if _instance is None:
            _instance = rt.VmInstance()
    return _instance


class StageExecutor:
    """`submit` queues the stage; its work starts after `wait` and ends in `signal`.

    IREE allows one call at a time in a context, hence the lock; a call only queues
    work, so it is short.
    """

    def __init__(
        self, artifact: Artifact, name: str, stage: Stage, module: ModuleFile, device: OpenDevice
    ) -> None:
        self.name = name
        self.device = device
        self.module = module
        self._outputs = range(len(stage.outputs))
        self._doing = f"run stage {name}"
        self._lock = threading.Lock()
        self.weight_bytes: dict[str, int] = {}
        with translated(f"load stage {name} ({module.target} {module.arch})", device.name):
            instance = vm_instance()
            modules = [rt.create_hal_module(instance, device.hal)]
            if module.parameters:
                # Slices of the mapped file: the CPU computes from them in place.
                index = rt.ParameterIndex()
                for k, parameter in enumerate(module.parameters):
                    weight = artifact.weight_bytes(parameter)
                    loans.lend(weight, partial(index.add_buffer, f"p{k}"))
                    self.weight_bytes[parameter] = len(weight)
                provider = index.create_provider(scope="model")
                modules.append(rt.create_io_parameters_module(instance, provider))
            # Kept in a variable: IREE loses the message of a failure otherwise.
            code = rt.VmModule.wrap_buffer(instance, artifact.entry(module.file))
            modules.append(code)
            self._context = rt.VmContext(instance, modules)
            self._run = code.lookup_function("run")
        if self._run is None:
            raise ArtifactError(
                f"module {module.file} of stage {name} has no entry point @run",
                code="incompatible-module",
                hint="compile the model again with this version of lemurc",
            )
        self._invoke = self._context.invoke

    @property
    def arch(self) -> str:
        return self.module.arch

    def submit(self, inputs: Sequence[Any], wait: Any, signal: Any) -> list[Any]:
        """Queue one execution; buffer views of the results, filled once `signal` is."""
        arguments = rt.VmVariantList(len(inputs) + 2)
        push = arguments.push_ref
        for view in inputs:
            push(view)
        push(wait)
        push(signal)
        results = rt.VmVariantList(len(self._outputs))
        with translated(self._doing, self.device.name), self._lock:
            self._invoke(self._run, arguments, results)
        return [results.get_as_object(k, rt.HalBufferView) for k in self._outputs]
