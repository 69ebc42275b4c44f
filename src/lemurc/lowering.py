"""The child process that owns MLIR: `python -m lemurc.lowering FOLDER`.

MLIR's pipelines can crash, hang or eat memory, so the compiler never runs them in the
user's process. What the two tell each other is in exchange.py.

    program.mlirbc -> lower_torch -> optimize -> one partition per set of devices
                   -> one module per stage -> select-kernels, lower-to-iree per target
"""

import hashlib
import io
import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lemurc.dumps import Dumps
from lemurc.errors import InternalError, LemurcError, UnsupportedModelError, UsageError
from lemurc.exchange import (
    ERROR,
    PASSES,
    PROGRAM,
    FoldedParameters,
    FunctionFlow,
    IreeInput,
    LoweredStage,
    Request,
    Response,
    TargetArch,
    describe_error,
    read_request,
    write_response,
)
from lemurc.explained import Homes, explained
from lemurc.host_stages import host_call, with_host
from lemurc.manifest import (
    DTYPES,
    HOST,
    Cost,
    Device,
    HostCall,
    Plan,
    Prediction,
    Step,
    TensorSpec,
    Workload,
)
from lemurc.pass_limit import count_optional, within

if TYPE_CHECKING:
    from lemurc.passes.manager import Instruments
    from lemurc.targets.lower_to_iree import LoweredStage as LoweredForIree

logger = logging.getLogger("lemurc.lowering")  # also where __name__ is "__main__"


def main(folder: Path) -> int:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(name)s: %(message)s")
    logging.getLogger("lemurc").setLevel(logging.DEBUG)
    try:
        response = lower(folder, read_request(folder))
    except LemurcError as error:
        (folder / ERROR).write_text(json.dumps(describe_error(error)))
        return error.exit_status
    write_response(folder, response)
    return 0


def lower(folder: Path, request: Request) -> Response:
    """Everything between the import and IREE."""
    from torch_mlir import ir

    from lemurc.dialects.context import new_context
    from lemurc.passes.convert_onnx import ConvertOnnx
    from lemurc.passes.lower_torch import lower_torch
    from lemurc.passes.manager import Instruments, run_pipeline

    dumps = Dumps(folder / PASSES if request.keep_ir else None)
    watch = Instruments(after_each=dumps.after)
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse((folder / PROGRAM).read_bytes())
        dumps.after("import", module.operation)
        if request.level == "onnx":
            run_pipeline(module, [ConvertOnnx()], watch)
        if request.level in ("onnx", "torch"):
            steps = lower_torch(host_ops=request.host_ops, strict=request.strict)
            run_pipeline(module, within(request.pass_limit, steps), watch)
        module, stepped_down = _optimized(module, request, watch)
        parameters = _take_parameter_function(module, folder)
        optimized = _bytecode(module.operation)
        homes: list[Homes] = []
        partitions, notes, illegal = _partitions(optimized, request, watch, homes)
        stages = _Stages()
        asked = frozenset(request.asked)
        plans = tuple(_plan(partition, stages, asked, request.measured) for partition in partitions)
        explanations = tuple(
            explained(partition.operation, plan, home)
            for partition, plan, home in zip(partitions, plans, homes, strict=True)
            if request.explain
        )
        needed = _targets_of(plans)
        lowered = {
            name: _described(source)
            if request.plan_only
            else _lower_stage(name, source, needed[name], request, folder, dumps)
            for name, source in stages.sources.items()
        }
        functions = _flows(module)
    said = (*stepped_down, *notes)
    return Response(functions, lowered, plans, parameters, said, illegal, explanations)


def _optimized(
    module: Any, request: Request, watch: "Instruments | None" = None
) -> tuple[Any, list[str]]:
    """`module` at the highest level that works, and what was said on the way there.

    Under `strict` the first failure is raised.
    """
    from torch_mlir import ir

    from lemurc.passes import pipelines
    from lemurc.passes.manager import run_pipeline

    level, limit = request.opt_level, request.pass_limit
    already = count_optional(pipelines.lower_torch()) if request.level != "linalg" else 0
    before = _bytecode(module.operation)
    notes: list[str] = []
    while True:
        try:
            steps = pipelines.optimize(level, explain=bool(request.explain))
            run_pipeline(module, within(limit, steps, already), watch)
            return module, notes
        except InternalError as error:
            if level == 0 or request.strict:
                raise
            logger.debug("%s", error)
            failed = error.message.partition("\n")[0]
            notes.append(f"optimisation level {level} failed, stepped down: {failed}; {error.hint}")
            level -= 1
            module = ir.Module.parse(before)


def _partitions(
    optimized: bytes, request: Request, watch: "Instruments", homes: "list[Homes]"
) -> tuple[list[Any], list[str], dict[str, str]]:
    """One placed and outlined module per useful set of devices; notes; illegal targets.

    `homes` collects the stages of operations, which are gone from those modules.

    When the largest set puts everything on one device, smaller sets of several devices
    would too: only the sets of one device are left to look at.
    """
    from torch_mlir import ir

    from lemurc.passes import pipelines
    from lemurc.passes.manager import run_pipeline

    found: list[Any] = []
    notes: list[str] = []
    illegal: dict[str, str] = {}
    cut = True
    for number, system in enumerate(request.systems):
        if number > 0 and not cut and len(system["devices"]) > 1:
            continue
        steps = pipelines.partition(
            request.objective, largest=request.largest_stage, explain=request.explain
        )
        module = ir.Module.parse(optimized)
        module.operation.attributes["lemur.system"] = _attribute(with_host(system, module))
        home = Homes()
        try:
            run_pipeline(module, steps, home.watched(watch) if request.explain else watch)
        except UnsupportedModelError as error:
            if len(request.systems) == 1:
                raise
            names = ", ".join(device["name"] for device in system["devices"])
            notes.append(f"no plan for {names} alone: {error.message}")
            if len(system["devices"]) == 1:
                illegal[system["devices"][0]["target"]] = error.message
            continue
        except UsageError as error:
            # A pin names a device that this smaller set lacks.
            if number == 0:
                raise
            logger.debug("no plan for %s: %s", system["devices"], error.message)
            continue
        used = {_text(stage, "lemur.device") for stage in _stage_modules(module)} - {HOST}
        if number == 0:
            cut = len(used) > 1
        found.append(module)
        homes.append(home)
    if not found:
        raise UnsupportedModelError(
            "no set of the targets can run this model:\n" + "\n".join(notes),
            code="no-legal-target",
            hint="add a target that supports it, such as cpu",
        )
    return found, notes, illegal


@dataclass
class _Stages:
    """Outlined stages by name; the same function over the same values is one stage."""

    sources: dict[str, "_StageSource"] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def add(self, source: "_StageSource") -> str:
        content = hashlib.sha256(source.bytecode)
        content.update(repr((source.inputs, source.outputs)).encode())
        key = content.hexdigest()
        if key not in self.names:
            self.names[key] = f"s{len(self.names)}"
            self.sources[self.names[key]] = source
        return self.names[key]


@dataclass(frozen=True)
class _StageSource:
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


def _plan(
    module: Any,
    stages: _Stages,
    asked: frozenset[str],
    measured: dict[str, dict[str, float]],
) -> Plan:
    """Read one partitioned module: which stage runs where, in order."""
    from lemurc.passes import system as systems
    from lemurc.passes.graph import entries, symbol
    from lemurc.passes.predict import predict

    outlined = {_text(op, "sym_name"): op for op in _stage_modules(module)}
    sources = {name: _source(stage) for name, stage in outlined.items()}

    def seconds(stage: Any) -> float | None:
        known = measured.get(_text(stage, "lemur.target"), {})
        return known.get(sources[_text(stage, "sym_name")].content)

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
            device = _text(stage, "lemur.device")
            targets[device] = _text(stage, "lemur.target")
            taken.append(Step(stages.add(sources[callee]), device))
        steps[symbol(entry)] = tuple(taken)
    if not targets.keys() - {HOST}:
        # What computes nothing, or leaves all to PyTorch, runs somewhere too.
        first = systems.read(module.operation).devices[0]
        targets[first.name] = first.target
    devices = tuple(Device(name, target, name in asked) for name, target in sorted(targets.items()))
    return Plan(devices, steps, predicted)


def _source(stage: Any) -> _StageSource:
    """The stage without what ties it to one device, and how its caller sees it."""
    from lemurc.passes.module_paths import module_paths
    from lemurc.passes.workloads import read as read_work

    copy = stage.clone()
    for name in ("lemur.device", "lemur.target"):
        del copy.attributes[name]
    copy.attributes["sym_name"] = _string("stage")
    run = next(
        op.operation
        for op in copy.regions[0].blocks[0].operations
        if op.operation.attributes["sym_name"].value == "run"
    )
    arguments, results = _attributes(run, "arg_attrs"), _attributes(run, "res_attrs")
    host = host_call(run) if _text(stage, "lemur.target") == HOST else None
    counts = {item.name: item.attr.value for item in stage.attributes["lemur.cost"]}
    ops = {item.name: item.attr.value for item in stage.attributes["lemur.ops"]}
    source = _StageSource(
        bytecode=_bytecode(copy),
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


def _attributes(function: Any, name: str) -> list[Any]:
    return list(function.attributes[name]) if name in function.attributes else []


def _targets_of(plans: Sequence[Plan]) -> dict[str, set[str]]:
    needed: dict[str, set[str]] = {}
    for plan in plans:
        target = {device.name: device.target for device in plan.devices}
        for steps in plan.steps.values():
            for step in steps:
                needed.setdefault(step.stage, set()).add(target[step.device])
    return needed


def _described(source: _StageSource, *ir: IreeInput) -> LoweredStage:
    return LoweredStage(
        source.inputs,
        source.outputs,
        source.cost,
        source.ops,
        ir,
        source.work,
        source.content if source.host is None else "",
        source.lines,
        source.host,
        source.paths,
    )


def _lower_stage(
    stage_name: str,
    source: _StageSource,
    targets: set[str],
    request: Request,
    folder: Path,
    dumps: Dumps,
) -> LoweredStage:
    from lemurc.targets.unpack_weights import packed_names

    inputs = []
    if source.host is not None:
        return _described(source)
    wanted = [arch for arch in request.archs if arch.target in targets or arch.always]
    stage = {arch: _lower_for(source, arch, request) for arch in wanted}
    # Code without kernels reads the weights that kernels have packed: they are stored once.
    packed = {
        (arch.target, name.rpartition("@")[0]): name
        for arch in wanted
        if arch.stored
        for name in packed_names(stage[arch].parameters)
    }
    for arch in wanted:
        logger.debug("lowering %s for %s:%s", stage_name, arch.target, arch.arch)
        names = [packed.get((arch.target, name)) for name in stage[arch].parameters]
        if shared := tuple(name for name in names if name is not None):
            stage[arch] = _lower_for(source, arch, request, shared)
        lowered = stage[arch]
        name = hashlib.sha256(lowered.bytecode).hexdigest()[:24] + ".mlirbc"
        (folder / name).write_bytes(lowered.bytecode)
        dumps.iree_input(f"{stage_name}-{arch.target}-{arch.arch}", lowered.bytecode)
        inputs.append(
            IreeInput(
                target=arch.target,
                arch=arch.arch,
                file=name,
                parameters=lowered.parameters,
                traits=lowered.traits,
            )
        )
    return _described(source, *inputs)


def _lower_for(
    source: _StageSource, arch: TargetArch, request: Request, packed: tuple[str, ...] = ()
) -> "LoweredForIree":
    from lemurc.targets.lower_to_iree import lower_to_iree
    from lemurc.targets.lower_to_portable import lower_to_portable
    from lemurc.targets.registry import get
    from lemurc.targets.stage_passes import last_passes, stage_passes

    target = get(arch.target)
    if target.compiler is not None:
        return lower_to_portable(source.bytecode)
    select = stage_passes(target, arch.arch, packed, kernels=request.kernels)
    return lower_to_iree(source.bytecode, select=select, last=last_passes(target))


def _flows(module: Any) -> dict[str, FunctionFlow]:
    """Where results come from; the same in every plan, so read before partitioning."""
    from lemurc.passes.graph import Graph, entries, symbol

    flows = {}
    for entry in entries(module.operation):
        graph = Graph(entry)
        results: dict[int, str] = {}
        updates: dict[str, str] = {}
        inputs: dict[str, str] = {}
        flags = ""
        attributes = _attributes(entry, "res_attrs")
        for value, attrs in zip(graph.terminator.operands, attributes, strict=True):
            if "lemur.state_update" in attrs:
                updates[attrs["lemur.state_update"].value] = graph.reference(value)
            elif "lemur.input_update" in attrs:
                inputs[str(attrs["lemur.input_update"].value)] = graph.reference(value)
            elif "lemur.checks" in attrs:
                flags = graph.reference(value)
            else:
                results[attrs["lemur.output"].value] = graph.reference(value)
        ordered = tuple(results[i] for i in sorted(results))
        flows[symbol(entry)] = FunctionFlow(ordered, updates, inputs, flags)
    return flows


def _take_parameter_function(module: Any, folder: Path) -> FoldedParameters | None:
    """Move the function of weights that `hoist-parameters` made into a module of its own."""
    from torch_mlir import ir

    from lemurc.targets.lower_to_iree import lower_to_iree

    for op in module.body.operations:
        function = op.operation
        if "lemur.parameters" not in function.attributes:
            continue
        alone = ir.Module.create()
        with ir.InsertionPoint(alone.body):
            copy = function.clone()
        copy.attributes["sym_name"] = _string("run")
        del copy.attributes["lemur.parameters"]
        if "sym_visibility" in copy.attributes:
            del copy.attributes["sym_visibility"]
        types = function.attributes["function_type"].value.results
        outputs = tuple(
            TensorSpec(
                attrs["lemur.param"].value, DTYPES[str(kind.element_type)], tuple(kind.shape)
            )
            for attrs, kind in zip(_attributes(function, "res_attrs"), types, strict=True)
        )
        lowered = lower_to_iree(_bytecode(alone.operation))
        (folder / "parameters.mlirbc").write_bytes(lowered.bytecode)
        function.erase()
        return FoldedParameters("parameters.mlirbc", lowered.parameters, outputs)
    return None


def _stage_modules(module: Any) -> list[Any]:
    return [op.operation for op in module.body.operations if op.operation.name == "builtin.module"]


def _text(op: Any, attribute: str) -> str:
    return str(op.attributes[attribute].value)


def _string(text: str) -> Any:
    from torch_mlir import ir

    return ir.StringAttr.get(text)


def _bytecode(operation: Any) -> bytes:
    buffer = io.BytesIO()
    operation.write_bytecode(buffer)
    return buffer.getvalue()


def _attribute(value: Any) -> Any:
    """JSON-like Python data as an MLIR attribute."""
    from torch_mlir import ir

    if isinstance(value, dict):
        return ir.DictAttr.get({key: _attribute(item) for key, item in value.items()})
    if isinstance(value, (list, tuple)):
        return ir.ArrayAttr.get([_attribute(item) for item in value])
    if isinstance(value, str):
        return ir.StringAttr.get(value)
    if isinstance(value, float):
        return ir.FloatAttr.get(ir.F64Type.get(), value)
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
