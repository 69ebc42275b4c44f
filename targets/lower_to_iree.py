"""Turn one outlined stage into the pure function IREE compiles.

    func @run(%x {lemur.value}, %w {lemur.param = "enc.w"})      module @stage
                        ->     util.global @p0 = #flow.parameter.named<"model"::"p0">
                               func @run(%x)

Weights become globals `@p<k>` named by position, composites without a kernel are
inlined, and whatever tells equal layers apart (names, attributes, locations) goes
away: equal layers give equal bytes, which compile once and cache well.

A composite whose body holds a `tm_tensor` op cannot be inlined here (the dialect
has no inliner interface); it stays a private function, and IREE inlines it after
its own conversion.
"""

import io
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from lemurc.errors import InternalError
from lemurc.targets.base import StageTraits
from lemurc.targets.keep_slices import keep_slices
from lemurc.targets.keep_sorted import keep_sorted
from lemurc.targets.loops_to_do_while import loops_to_do_while
from lemurc.targets.memory_effects import BARRIER, memory_effects
from lemurc.targets.own_destinations import own_destinations

PARAMETER_SCOPE = "model"
ENTRY_POINT = "run"

_CLEANUP = "builtin.module(inline,symbol-dce,canonicalize,cse,symbol-dce,strip-debuginfo)"
_WIDE_ELEMENTS = ("bf16>", "complex<f32>>", "complex<f64>>", "f8E4M3FN>", "f8E5M2>")


@dataclass(frozen=True)
class LoweredStage:
    """What `iree-compile` reads, the weights it wants in order, and what it contains."""

    bytecode: bytes
    parameters: tuple[str, ...]
    traits: StageTraits = field(default_factory=StageTraits)


def lower_to_iree(
    source: bytes | str,
    *,
    select: Callable[[Any], None] | None = None,
    last: Callable[[Any], None] | None = None,
) -> LoweredStage:
    """Lowers a stage module; `select` may first rewrite composites into kernel calls.

    `last` runs on what IREE will see, when everything is inlined.

    `source` is bytecode, or text in generic form: the printed form of a `func.call`
    that carries `no_inline` is refused by IREE's stricter parser.
    """
    from iree.compiler import ir

    context = ir.Context()
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown():
        outer = ir.Module.parse(source)  # owns the IR: keep it to the end
        module = stage_module(outer)
        if select is not None:
            select(module)
        traits = _traits(module)
        parameters = lower(module)
        if last is not None:
            last(module)
        functions = {
            op.attributes["sym_name"].value: op
            for op in _top_level(module)
            if op.name == "func.func"
        }
        traits = replace(traits, memory=memory_effects(functions[ENTRY_POINT], functions))
        stream = io.BytesIO()
        module.write_bytecode(stream)
        return LoweredStage(stream.getvalue(), parameters, traits)


def stage_module(outer: Any) -> Any:
    """The stage itself: `outer`, or the one module that it holds."""
    inner = [op.operation for op in outer.body.operations]
    if len(inner) == 1 and inner[0].name == "builtin.module":
        return inner[0]
    return outer.operation


def lower(module: Any) -> tuple[str, ...]:
    """The pass `lower-to-iree`, in place; returns the names of the weights in order."""
    from iree.compiler import ir
    from iree.compiler.passmanager import PassManager

    run = entry_point(module)
    parameters = _externalize(module, run)
    for op in list(walk(module)):
        strip(op)
        if op.name == "lemur.barrier":
            _keep_apart(op)
    module.attributes["sym_name"] = ir.StringAttr.get("stage")
    _hide_all_but(module, run)
    PassManager.parse(_CLEANUP).run(module)
    loops_to_do_while(walk(module))
    own_destinations(walk(module))
    keep_sorted(walk(module))
    keep_slices(walk(module))
    _rename_private_functions(module)
    return parameters


def entry_point(module: Any) -> Any:
    """The function a stage is run by."""
    for op in _top_level(module):
        if op.name == "func.func" and op.attributes["sym_name"].value == ENTRY_POINT:
            return op
    raise InternalError(f"a stage module has no function @{ENTRY_POINT}")


def _externalize(module: Any, run: Any) -> tuple[str, ...]:
    from iree.compiler import ir

    if "arg_attrs" not in run.attributes:
        return ()
    entry = run.regions[0].blocks[0]
    _drop_unread_weights(run)
    names = [
        attributes["lemur.param"].value if "lemur.param" in attributes else None
        for attributes in run.attributes["arg_attrs"]
    ]
    kinds = run.attributes["function_type"].value
    with ir.InsertionPoint.at_block_begin(entry):
        for index, argument in enumerate(kinds.inputs):
            if names[index] is None:
                continue
            position = sum(name is not None for name in names[:index])
            load = ir.Operation.create(
                "util.global.load",
                results=[argument],
                attributes={"global": ir.FlatSymbolRefAttr.get(f"p{position}")},
            )
            entry.arguments[index].replace_all_uses_with(load.result)
    for index in reversed(range(len(names))):
        if names[index] is not None:
            entry.erase_argument(index)
    kept = [kind for kind, name in zip(kinds.inputs, names, strict=True) if name is None]
    weights = [kind for kind, name in zip(kinds.inputs, names, strict=True) if name is not None]
    run.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kept, kinds.results))
    del run.attributes["arg_attrs"]
    with ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]):
        for position, kind in enumerate(weights):
            _declare_parameter(f"p{position}", kind)
    return tuple(name for name in names if name is not None)


def _drop_unread_weights(run: Any) -> None:
    """Weights that only a kernel's own layout of them made needless."""
    from iree.compiler import ir

    entry = run.regions[0].blocks[0]
    attributes = list(run.attributes["arg_attrs"])
    signature = run.attributes["function_type"].value
    inputs = list(signature.inputs)
    for index in reversed(range(len(attributes))):
        if "lemur.param" in attributes[index] and not list(entry.arguments[index].uses):
            entry.erase_argument(index)
            del attributes[index], inputs[index]
    run.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
    kept = ir.FunctionType.get(inputs, signature.results)
    run.attributes["function_type"] = ir.TypeAttr.get(kept)


def _declare_parameter(name: str, kind: Any) -> None:
    from iree.compiler import ir

    ir.Operation.create(
        "util.global",
        attributes={
            "sym_name": ir.StringAttr.get(name),
            "sym_visibility": ir.StringAttr.get("private"),
            "type": ir.TypeAttr.get(kind),
            "initial_value": ir.Attribute.parse(
                f'#flow.parameter.named<"{PARAMETER_SCOPE}"::"{name}"> : {kind}'
            ),
        },
    )


def strip(op: Any) -> None:
    """Removes what only our passes read, and `no_inline`, which kept composites whole."""
    for name in [name for name in op.attributes if name.startswith("lemur.")]:
        del op.attributes[name]
    if "no_inline" in op.attributes:
        del op.attributes["no_inline"]
    if op.name == "func.func":
        for name in ("arg_attrs", "res_attrs"):
            if name in op.attributes:
                del op.attributes[name]


def _keep_apart(barrier: Any) -> None:
    """IREE's own barrier, which it drops when dispatches are formed, so that one submission of
    work stays one; `util.optimization_barrier` would cut it in two."""
    from iree.compiler import ir

    kept = ir.Operation.create(
        BARRIER,
        results=[result.type for result in barrier.results],
        operands=list(barrier.operands),
        ip=ir.InsertionPoint(barrier),
        loc=barrier.location,
    )
    barrier.results[0].replace_all_uses_with(kept.results[0])
    barrier.erase()


def _hide_all_but(module: Any, run: Any) -> None:
    from iree.compiler import ir

    for op in _top_level(module):
        if op.name == "func.func" and op != run:
            op.attributes["sym_visibility"] = ir.StringAttr.get("private")


def _rename_private_functions(module: Any) -> None:
    """Names what was not inlined by position: @c0, @c1, ..."""
    from iree.compiler import ir

    renamed: dict[str, str] = {}
    for op in _top_level(module):
        name = op.attributes["sym_name"].value
        if op.name == "func.func" and name != ENTRY_POINT:
            renamed[name] = f"c{len(renamed)}"
            op.attributes["sym_name"] = ir.StringAttr.get(renamed[name])
    for op in walk(module):
        if op.name == "func.call" and op.attributes["callee"].value in renamed:
            callee = renamed[op.attributes["callee"].value]
            op.attributes["callee"] = ir.FlatSymbolRefAttr.get(callee)


def _traits(module: Any) -> StageTraits:
    kinds = {
        op.attributes["sym_name"].value: op.attributes["lemur.composite"].value
        for op in _top_level(module)
        if op.name == "func.func" and "lemur.composite" in op.attributes
    }
    composites: Counter[str] = Counter()
    wide = dynamic = batches = False
    for op in walk(module):
        if any("?" in str(result.type) for result in op.results):
            dynamic = True
            batches = batches or _multiplies_batches(op)
        if op.name == "func.call":
            kind = kinds.get(op.attributes["callee"].value)
            composites.update([kind] if kind else [])
        if op.name == "arith.constant":
            value = str(op.attributes["value"].type)
            if value.endswith(_WIDE_ELEMENTS):
                wide = wide or "dense_resource" in str(op.attributes["value"])
    return StageTraits(dict(sorted(composites.items())), wide, dynamic, batches)


def _multiplies_batches(op: Any) -> bool:
    """Whether it sums products and more loops than the two of a matrix are in both operands."""
    if not op.name.startswith("linalg.") or "indexing_maps" not in op.attributes:
        return False
    maps = [attribute.value for attribute in op.attributes["indexing_maps"]]
    if len(maps) != 3:
        return False
    left, right, out = ({str(dim) for dim in one.results} for one in maps)
    return bool(left & right & out) and bool((left & right) - out)


def _top_level(module: Any) -> list[Any]:
    return [op.operation for op in module.regions[0].blocks[0].operations]


def walk(op: Any) -> Iterator[Any]:
    """`op` and everything in it, as it was when each block was reached."""
    yield op
    for region in op.regions:
        for block in region.blocks:
            for child in list(block.operations):
                yield from walk(child.operation)
