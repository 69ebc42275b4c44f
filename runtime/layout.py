"""From the steps of a plan to the operations of a program."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lemurc.errors import InternalError
from lemurc.manifest import Function, Manifest, Stage, Step
from lemurc.runtime.artifact import Artifact
from lemurc.runtime.call import Operation
from lemurc.runtime.devices import OpenDevice
from lemurc.runtime.element_types import element_type
from lemurc.runtime.executor import StageExecutor
from lemurc.runtime.host_operators import HostExecutor
from lemurc.runtime.operations import Duplicate, Feed, Fetch, Invoke, InvokeHost, Move, Recall
from lemurc.runtime.plugin_executor import PluginExecutor
from lemurc.runtime.plugin_operations import FeedPlugin, InvokePlugin, MovePlugin, RecallPlugin
from lemurc.runtime.program import Program

if TYPE_CHECKING:
    from lemurc.runtime.simulation import Simulation

Executors = dict[tuple[str, str], StageExecutor | HostExecutor | PluginExecutor]
"""By stage and the plan's name of a device."""


def compile_program(
    artifact: Artifact,
    function: Function,
    steps: Sequence[Step],
    devices: dict[str, OpenDevice],
    executors: Executors,
    simulation: "Simulation | None" = None,
) -> Program:
    """Lay out the operations of `steps`; `devices` maps the plan's names to open ones, which
    may be those of a `simulation`."""
    program = _Layout(artifact, function, steps, devices, executors).program()
    program.simulation = simulation
    return program


class _Layout:
    def __init__(
        self,
        artifact: Artifact,
        function: Function,
        steps: Sequence[Step],
        devices: dict[str, OpenDevice],
        executors: Executors,
    ) -> None:
        self.artifact = artifact
        self.manifest: Manifest = artifact.manifest
        self.function = function
        self.steps = steps
        self.order = {name: number for number, name in enumerate(devices)}
        self.devices = list(devices.values())
        self.executors = executors
        self.operations: list[Operation] = []
        self.cells: dict[tuple[str, int], int] = {}
        self.homes: dict[str, tuple[int, int]] = {}

    def program(self) -> Program:
        for step in self.steps:
            stage, device = self.manifest.stages[step.stage], self.order[step.device]
            executor = self.executors[step.stage, step.device]
            if isinstance(executor, HostExecutor):
                self.operations.append(self._on_host(executor, stage, device))
                continue
            if isinstance(executor, PluginExecutor):
                read = tuple(self._cell_on(reference, device) for reference in stage.inputs)
                made = tuple(self._new_cell(value, device) for value in stage.outputs)
                self.operations.append(InvokePlugin(executor, read, made))
                continue
            inputs = tuple(
                self._own_cell(reference, device)
                if at in stage.written
                else self._cell_on(reference, device)
                for at, reference in enumerate(stage.inputs)
            )
            outputs = tuple(self._new_cell(value, device) for value in stage.outputs)
            self.operations.append(Invoke(executor, device, inputs, outputs))
        for reference in self.function.state_updates.values():
            if reference.startswith(("input:", "param:")) and reference not in self.homes:
                self._cell_on(reference, 0)
        leaving = dict.fromkeys((*self.function.results, *self.function.input_updates.values()))
        fetches = [fetch for reference in leaving if (fetch := self._fetch(reference))]
        returned = [
            reference.removeprefix("param:")
            for reference in leaving
            if reference.startswith("param:")
        ]
        return Program(
            function=self.function,
            owned=self._owned(),
            devices=self.devices,
            operations=self.operations,
            fetches=fetches,
            flags=self._fetch(self.function.check_flags),
            homes=self.homes,
            cells=len(self.cells),
            weights={name: self.artifact.weight(name) for name in returned},
        )

    def _on_host(self, executor: HostExecutor, stage: Stage, device: int) -> InvokeHost:
        """Weights are no cells: the executor has them."""
        read = [
            (self._cell_on(reference, device), np.dtype(dtype))
            for reference, dtype in zip(stage.inputs, executor.call.inputs, strict=True)
            if not reference.startswith("param:")
        ]
        return InvokeHost(
            executor,
            self.devices[device],
            tuple(cell for cell, _ in read),
            tuple(dtype for _, dtype in read),
            tuple(self._new_cell(value, device) for value in stage.outputs),
            tuple(element_type(result.dtype) for result in executor.call.results),
        )

    def _fetch(self, reference: str) -> Fetch | None:
        """None for what the host has at hand."""
        if reference not in self.homes or reference.startswith(("input:", "param:")):
            return None
        cell, device = self.homes[reference]
        origin = self.devices[device]
        return None if origin.is_host or origin.plugin is not None else Fetch(cell, device)

    def _new_cell(self, reference: str, device: int) -> int:
        cell = self.cells[reference, device] = len(self.cells)
        self.homes.setdefault(reference, (cell, device))
        return cell

    def _own_cell(self, reference: str, device: int) -> int:
        """A cell that a stage may write into."""
        kind, _, name = reference.partition(":")
        target = self.devices[device]
        source = None if kind in ("input", "state") else self._cell_on(reference, device)
        cell = self._new_cell(f"{reference}/{len(self.cells)}", device)
        if source is not None:
            self.operations.append(Duplicate(source, cell, device))
        elif kind == "input":
            element = element_type(self.function.inputs[int(name)].dtype)
            self.operations.append(Feed(int(name), cell, device, target, element, True, True))
        else:
            element = element_type(self.manifest.weights[name].dtype)
            replaced = self._is_replaced(reference, name)
            self.operations.append(Recall(name, cell, device, target, element, True, replaced))
        return cell

    def _owned(self) -> frozenset[str]:
        stages = [self.manifest.stages[step.stage] for step in self.steps]
        updates = Counter(self.function.state_updates.values())
        outputs = (stage.outputs[at] for stage in stages for at in stage.owned)
        return frozenset(value for value in outputs if updates[value] < 2)

    def _is_replaced(self, reference: str, name: str) -> bool:
        """Whether one stage alone reads a state variable that every call replaces.

        Where checks can fail the old value must be there after the call.
        """
        function = self.function
        if name not in function.state_updates or function.check_flags:
            return False
        readers = [used for step in self.steps for used in self.manifest.stages[step.stage].inputs]
        readers += [*function.results, *function.state_updates.values()]
        readers += function.input_updates.values()
        return readers.count(reference) == 1

    def _cell_on(self, reference: str, device: int) -> int:
        """The cell of a value on a device, with the operation that brings it there."""
        if (reference, device) in self.cells:
            return self.cells[reference, device]
        kind, _, name = reference.partition(":")
        home = self.homes.get(reference)
        cell = self._new_cell(reference, device)
        target = self.devices[device]
        if kind == "input":
            spec = self.function.inputs[int(name)]
            if target.plugin is not None:
                self.operations.append(FeedPlugin(int(name), cell, target, np.dtype(spec.dtype)))
                return cell
            keep = reference in self.function.state_updates.values()
            element = element_type(spec.dtype)
            self.operations.append(Feed(int(name), cell, device, target, element, keep))
        elif kind == "state" and target.plugin is not None:
            self.operations.append(RecallPlugin(name, cell, target))
        elif kind == "state":
            element = element_type(self.manifest.weights[name].dtype)
            self.operations.append(Recall(name, cell, device, target, element))
        elif home is None:
            raise InternalError(f"a stage reads {reference!r} before any stage computes it")
        else:
            origin = self.devices[home[1]]
            ours = origin.plugin is None and target.plugin is None
            move = (Move if ours else MovePlugin)(*home, cell, device, origin, target)
            self.operations.append(move)
        return cell
