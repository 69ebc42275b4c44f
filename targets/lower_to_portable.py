"""Turn one outlined stage into what a compiler that is not IREE's reads.

    func @run(%w {lemur.param = "enc.w"}, %x {lemur.value})   ->   func @run(%x, %w)

One module with one public function `@run`: inputs of the stage first, then weights, in the
order of `parameters`; results are those of the stage. All are ranked tensors, with `?` where
a size is known at the call only. The body is of the dialects in `DIALECTS`; composites are
inlined, and nothing of `lemur` is left: no operation, no attribute, no location. So equal
layers give equal bytes, which compile once. Assertions, with which torch-mlir guards against
what eager answers with an infinity, go too: checks of the model's own are results.
"""

import io

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from lemurc.errors import InternalError
from lemurc.targets.base import StageTraits
from lemurc.targets.lower_to_iree import LoweredStage, entry_point, stage_module, strip, walk
from lemurc.targets.memory_effects import MemoryEffects

DIALECTS = frozenset(
    {"arith", "builtin", "complex", "func", "linalg", "math", "scf", "tensor", "tm_tensor"}
)

_CLEANUP = "builtin.module(inline,canonicalize,cse,symbol-dce,strip-debuginfo)"


def lower_to_portable(source: bytes) -> LoweredStage:
    """Lowers the bytecode of a stage module, in the context of the caller.

    A plug-in's code writes into no memory but that of its results.
    """
    outer = ir.Module.parse(source)  # owns the IR: keep it to the end
    module = stage_module(outer)
    run = entry_point(module)
    parameters = _weights_last(run)
    for op in list(walk(module)):
        if op.name == "cf.assert":
            op.erase()
        elif op.name == "lemur.barrier":
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()
        else:
            strip(op)
            if op.name == "func.func" and op != run:
                op.attributes["sym_visibility"] = ir.StringAttr.get("private")
    module.attributes["sym_name"] = ir.StringAttr.get("stage")
    PassManager.parse(_CLEANUP).run(module)
    _inline_rest(module, run)
    _check(module)
    stream = io.BytesIO()
    module.write_bytecode(stream)
    results = len(run.attributes["function_type"].value.results)
    effects = MemoryEffects((), tuple(range(results)))
    return LoweredStage(stream.getvalue(), parameters, StageTraits(memory=effects))


def _weights_last(run: ir.Operation) -> tuple[str, ...]:
    """Moves the weights that are read behind the inputs; returns their names."""
    entry = run.regions[0].blocks[0]
    if "arg_attrs" not in run.attributes:
        return ()
    names = [
        str(given["lemur.param"].value) if "lemur.param" in given else None
        for given in run.attributes["arg_attrs"]
    ]
    parameters = []
    for index, name in enumerate(names):
        argument = entry.arguments[index]
        if name is not None and list(argument.uses):
            moved = entry.add_argument(argument.type, run.location)
            argument.replace_all_uses_with(moved)
            parameters.append(name)
    for index in reversed(range(len(names))):
        if names[index] is not None:
            entry.erase_argument(index)
    del run.attributes["arg_attrs"]
    inputs = [argument.type for argument in entry.arguments]
    results = run.attributes["function_type"].value.results
    run.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
    return tuple(parameters)


def _inline_rest(module: ir.Operation, run: ir.Operation) -> None:
    """Inlines what MLIR does not: functions with `tm_tensor` in them, which it has no rules for.

    All have one block, since composites are outlined before there is control flow in blocks.
    """
    functions = {
        str(op.operation.attributes["sym_name"].value): op.operation
        for op in module.regions[0].blocks[0].operations
        if op.operation.name == "func.func" and op.operation != run
    }
    while calls := [op for op in walk(run) if op.name == "func.call"]:
        for call in calls:
            body = functions[str(call.attributes["callee"].value)].regions[0].blocks[0]
            _inline(body, call)
    for function in functions.values():
        function.erase()


def _inline(body: ir.Block, call: ir.Operation) -> None:
    values: dict[ir.Value, ir.Value] = dict(zip(body.arguments, call.operands, strict=True))
    *steps, end = body.operations
    with ir.InsertionPoint(call), call.location:
        for step in steps:
            made = step.operation.clone()
            for op in walk(made):
                for at, operand in enumerate(op.operands):
                    if operand in values:
                        op.operands[at] = values[operand]
            values.update(zip(step.operation.results, made.results, strict=True))
    for old, new in zip(call.results, end.operation.operands, strict=True):
        old.replace_all_uses_with(values[new])
    call.erase()


def _check(module: ir.Operation) -> None:
    found = {op.name.partition(".")[0] for op in walk(module)}
    if not found <= DIALECTS:
        raise InternalError(
            f"a stage holds operations of {', '.join(sorted(found - DIALECTS))}, which the "
            "compilers of plug-ins do not know"
        )
