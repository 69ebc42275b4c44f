"""Put a fused group's operations back where its call stands.

`place` does so when a group cannot be placed as one: its members are pinned to
different devices, or no device may run them all. Values that leave the group keep
their names; those inside are named after them, so that names mean the same in every plan.
"""

from torch_mlir import ir

from lemurc.passes import graph as graphs
from lemurc.passes.annotate_cost import cost_attribute, names_attribute
from lemurc.passes.apart import APART, taken_apart
from lemurc.passes.attributes import attribute
from lemurc.passes.counts import work
from lemurc.passes.legality import Legality
from lemurc.passes.sizes import Sizes
from lemurc.passes.unused import erase_unused_composites


def unfuse_conflicts(
    module: ir.Operation,
    functions: dict[str, ir.Operation],
    legality: Legality,
    explain: bool = False,
) -> None:
    """Afterwards every fused group has one pin at most, and a device that may run it.

    `explain` notes on what was inside why it is no longer.
    """
    changed = False
    for entry in graphs.entries(module):
        for op in list(entry.regions[0].blocks[0].operations):
            body = functions.get(graphs.callee(op.operation))
            why = legality.conflict(op.operation) if body is not None else ""
            if body is not None and why:
                members = unfuse(op.operation, body, functions, Sizes(entry))
                for member in members if explain else ():
                    member.attributes[APART] = attribute([taken_apart(member, why, functions)])
                changed = True
    if changed:
        erase_unused_composites(module)
        for name in set(functions) - set(graphs.bodies(module)):
            del functions[name]


def unfuse(
    call: ir.Operation, body: ir.Operation, functions: dict[str, ir.Operation], sizes: Sizes
) -> list[ir.Operation]:
    """Replace the call of a fused group; the operations that stand where it was."""
    block = body.regions[0].blocks[0]
    *operations, terminator = (op.operation for op in block.operations)
    inside = dict(zip(block.arguments, call.operands, strict=True))
    names = [item.value for item in call.attributes["lemur.values"]]
    known = dict(zip(terminator.operands, names, strict=True))
    live = call.attributes["lemur.cost"]["live_bytes"].value
    count = 0
    members = []
    for op in operations:
        clone = op.clone(ir.InsertionPoint(call)).operation
        graphs.remap(clone, inside)
        inside.update(zip(op.results, clone.results, strict=True))
        if graphs.is_free(op):
            continue
        members.append(clone)
        named = []
        for result in op.results:
            named.append(known.get(result, f"{names[0]}.{count}"))
            count += result not in known
        clone.attributes["lemur.values"] = names_attribute(named)
        clone.attributes["lemur.cost"] = cost_attribute(work(clone, sizes, functions), live)
    for result, value in zip(call.results, terminator.operands, strict=True):
        result.replace_all_uses_with(inside[value])
    call.erase()
    return members
