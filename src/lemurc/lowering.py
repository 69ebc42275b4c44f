"""The child process that owns MLIR: `python -m lemurc.lowering FOLDER`.

MLIR's pipelines can crash, hang or eat memory, so the compiler never runs them in the
user's process. What the two tell each other is in exchange.py.

    program.mlirbc -> lower_torch -> optimize -> one partition per set of devices
                   -> one module per stage -> select-kernels, lower-to-iree per target
"""

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lemurc.dumps import Dumps
from lemurc.errors import InternalError, LemurcError
from lemurc.exchange import (
    ERROR,
    PASSES,
    PROGRAM,
    FoldedParameters,
    FunctionFlow,
    Request,
    Response,
    describe_error,
    read_request,
    write_response,
)
from lemurc.explained import Homes, explained
from lemurc.manifest import DTYPES, TensorSpec
from lemurc.partitions import partitioned
from lemurc.pass_limit import count_optional, within
from lemurc.stage_lowering import lower_stage, without_code
from lemurc.stage_sources import (
    Stages,
    attributes_of,
    bytecode,
    read_plan,
    string,
    targets_of,
)

if TYPE_CHECKING:
    from lemurc.passes.manager import Instruments

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
        optimized = bytecode(module.operation)
        homes: list[Homes] = []
        partitions, notes, illegal = partitioned(optimized, request, watch, homes)
        stages = Stages()
        asked = frozenset(request.asked)
        plans = tuple(
            read_plan(partition, stages, asked, request.measured) for partition in partitions
        )
        explanations = tuple(
            explained(partition.operation, plan, home)
            for partition, plan, home in zip(partitions, plans, homes, strict=True)
            if request.explain
        )
        needed = targets_of(plans)
        lowered = {
            name: without_code(source)
            if request.plan_only
            else lower_stage(name, source, needed[name], request, folder, dumps)
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
    before = bytecode(module.operation)
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
        attributes = attributes_of(entry, "res_attrs")
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
        copy.attributes["sym_name"] = string("run")
        del copy.attributes["lemur.parameters"]
        if "sym_visibility" in copy.attributes:
            del copy.attributes["sym_visibility"]
        types = function.attributes["function_type"].value.results
        outputs = tuple(
            TensorSpec(
                attrs["lemur.param"].value, DTYPES[str(kind.element_type)], tuple(kind.shape)
            )
            for attrs, kind in zip(attributes_of(function, "res_attrs"), types, strict=True)
        )
        lowered = lower_to_iree(bytecode(alone.operation))
        (folder / "parameters.mlirbc").write_bytes(lowered.bytecode)
        function.erase()
        return FoldedParameters("parameters.mlirbc", lowered.parameters, outputs)
    return None


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
