"""The stages of partitioned modules: which run where, and each without what ties it to a device."""

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lemurc.host_stages import host_call
from lemurc.manifest import (
    HOST,
    Cost,
    Device,
    HostCall,
    MicroBatches,
    Plan,
    Prediction,
    Step,
    Workload,
)


@dataclass
class Stages:
    """Outlined stages by name; the same function over the same values is one stage."""

    sources: dict[str, "StageSource"] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def add(self, source: "StageSource") -> str:
        content = hashlib.sha256(source.bytecode)
        content.update(repr((source.inputs, source.outputs)).encode())
        key = content.hexdigest()
        if key not in self.names:
            self.names[key] = f"s{len(self.names)}"
            self.sources[self.names[key]] = source
        return self.names[key]


@dataclass(frozen=True)
class StageSource:
    bytecode: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    cost: Cost
    ops: dict[str, int]
    work: tuple[Workload, ...]
    lines: dict[str, str]
    host: HostCall | None = None
    paths: tuple[str, ...] = ()

    @property
    def content(self) -> str:
        return hashlib.sha256(self.bytecode).hexdigest()[:24]


def read_plan(
    module: Any,
    stages: Stages,
    asked: frozenset[str],
    measured: dict[str, dict[str, float]],
) -> Plan:
    """Read one partitioned module: which stage runs where, in order."""
    from lemurc.passes import system as systems
    from lemurc.passes.graph import entries, symbol
    from lemurc.passes.predict import predict

    outlined = {text(op, "sym_name"): op for op in stage_modules(module)}
    sources = {name: _source(stage) for name, stage in outlined.items()}

    def seconds(stage: Any) -> float | None:
        known = measured.get(text(stage, "lemur.target"), {})
        return known.get(sources[text(stage, "sym_name")].content)

    predicted: dict[str, Prediction] = predict(module, seconds)
    steps: dict[str, tuple[Step, ...]] = {}
    targets: dict[str, str] = {}
    for entry in entries(module.operation):
        taken = []
        for op in entry.regions[0].blocks[0].operations:
            if "lemur.stage" not in op.operation.attributes:
                continue
            callee = op.operation.attributes["lemur.stage"].value
            stage = outlined[callee]
            device = text(stage, "lemur.device")
            targets[device] = text(stage, "lemur.target")
            taken.append(Step(stages.add(sources[callee]), device))
        steps[symbol(entry)] = tuple(taken)
    if not targets.keys() - {HOST}:
        # What computes nothing, or leaves all to PyTorch, runs somewhere too.
        first = systems.read(module.operation).devices[0]
        targets[first.name] = first.target
    devices = tuple(Device(name, target, name in asked) for name, target in sorted(targets.items()))
    return Plan(devices, steps, predicted, _micro_batches(module))


def _micro_batches(module: Any) -> dict[str, MicroBatches]:
    from lemurc.passes.attributes import plain
    from lemurc.passes.graph import entries, symbol
    from lemurc.passes.micro_batch import MICRO_BATCHES

    found = {}
    for entry in entries(module.operation):
        if MICRO_BATCHES in entry.attributes:
            cut = plain(entry.attributes[MICRO_BATCHES])
            inputs, outputs = tuple(cut["inputs"]), tuple(cut["outputs"])
            found[symbol(entry)] = MicroBatches(cut["count"], inputs, outputs)
    return found


def _source(stage: Any) -> StageSource:
    """The stage without what ties it to one device, and how its caller sees it."""
    from lemurc.passes.module_paths import module_paths
    from lemurc.passes.workloads import read as read_work

    copy = stage.clone()
    for name in ("lemur.device", "lemur.target"):
        del copy.attributes[name]
    copy.attributes["sym_name"] = string("stage")
    run = next(
        op.operation
        for op in copy.regions[0].blocks[0].operations
        if op.operation.attributes["sym_name"].value == "run"
    )
    arguments, results = attributes_of(run, "arg_attrs"), attributes_of(run, "res_attrs")
    host = host_call(run) if text(stage, "lemur.target") == HOST else None
    counts = {item.name: item.attr.value for item in stage.attributes["lemur.cost"]}
    ops = {item.name: item.attr.value for item in stage.attributes["lemur.ops"]}
    source = StageSource(
        bytecode=bytecode(copy),
        inputs=tuple(
            a["lemur.value"].value if "lemur.value" in a else f"param:{a['lemur.param'].value}"
            for a in arguments
            if host is not None or "lemur.value" in a
        ),
        outputs=tuple(a["lemur.value"].value for a in results),
        cost=Cost(**counts),
        ops=ops,
        work=read_work(stage),
        lines=_lines(copy),
        host=host,
        paths=module_paths(stage),
    )
    copy.erase()
    return source


def _lines(stage: Any) -> dict[str, str]:
    from torch_mlir import ir

    from lemurc.dialects.locations import python_line

    found: dict[str, str] = {}

    def visit(operation: Any) -> Any:
        for result in operation.results:
            kind = result.type
            element = kind.element_type if isinstance(kind, ir.ShapedType) else kind
            key = f"{operation.name} {element}"
            if key not in found and (line := python_line(operation.location)):
                found[key] = line
        return ir.WalkResult.ADVANCE

    stage.walk(visit)
    return found


def targets_of(plans: Sequence[Plan]) -> dict[str, set[str]]:
    needed: dict[str, set[str]] = {}
    for plan in plans:
        target = {device.name: device.target for device in plan.devices}
        for steps in plan.steps.values():
            for step in steps:
                needed.setdefault(step.stage, set()).add(target[step.device])
    return needed


def attributes_of(function: Any, name: str) -> list[Any]:
    return list(function.attributes[name]) if name in function.attributes else []


def stage_modules(module: Any) -> list[Any]:
    return [op.operation for op in module.body.operations if op.operation.name == "builtin.module"]


def splits_of(module: Any) -> list[str]:
    """What `split-weights` has to say."""
    from lemurc.passes.graph import entries
    from lemurc.passes.split_weights import SPLITS

    return [
        str(said.value)
        for entry in entries(module.operation)
        for _, said in attributes_of(entry, SPLITS)
    ]


def chunks_of(module: Any) -> list[str]:
    """What `chunk` has to say: of each chain, how large its parts are in the end."""
    from lemurc.passes.chunk import CHUNKS
    from lemurc.passes.graph import entries

    return [
        f"{said.value}, because no device has memory for more"
        for entry in entries(module.operation)
        for said in attributes_of(entry, CHUNKS)
    ]


def text(op: Any, attribute: str) -> str:
    return str(op.attributes[attribute].value)


def string(value: str) -> Any:
    from torch_mlir import ir

    return ir.StringAttr.get(value)


def bytecode(operation: Any) -> bytes:
    buffer = io.BytesIO()
    operation.write_bytecode(buffer)
    return buffer.getvalue()
