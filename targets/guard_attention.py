"""Zero the rows of IREE's fused attention that may see no key, as PyTorch does.

    %y = tm_tensor.attention ins(..., %mask)  ->  ... ; call @attention_guard_0(%y, %mask)

IREE 3.13 divides 0 by 0 there. Runs on one stage before `lower-to-iree`, for targets
whose attention stays fused.
"""

from typing import Any

from lemurc.targets.decompose_attention import ATTENTION, BATCH
from lemurc.targets.linalg_text import Body, Tensor, call, declare, operations

NAME = "attention_guard"


def guard_attention(module: Any) -> None:
    """The pass `guard-attention`, in place."""
    from iree.compiler import ir

    functions: dict[tuple[Tensor, Tensor], str] = {}
    for op in list(operations(module, ATTENTION)):
        if len(op.operands) < 5:
            continue
        result, mask = op.results[0], op.operands[3]
        batch = BATCH[: result.type.rank - 2]
        key = (Tensor.of("%result", f"{batch}me", result), Tensor.of("%mask", f"{batch}mn", mask))
        if key not in functions:
            functions[key] = f"{NAME}_{len(functions)}"
            declare(module, _function(functions[key], *key))
        with ir.InsertionPoint.after(op):
            guarded = call(functions[key], [result, mask], result.type, op.location)
        result.replace_all_uses_except(guarded, guarded.owner.operation)


def _function(name: str, result: Tensor, mask: Tensor) -> str:
    kind, element = mask.element, result.element
    loops, row = mask.axes, mask.axes[:-1]
    seen = Body((result, mask), "i1")
    # A float mask hides a key by minus infinity.
    body = [] if kind == "i1" else [f"%shown = arith.cmpf une, %x, %lowest : {kind}"]
    shown = "%x" if kind == "i1" else "%shown"
    any_key = seen.generic(
        [mask.name], row, loops, [*body, f"%t = arith.ori %acc, {shown} : i1"], start="%false"
    )
    seen.wide = element
    select = [f"%t = arith.select %y, %x, %zero : {element}"]
    guarded = seen.generic([result.name, any_key], result.axes, result.axes, select, element)
    constants = ["%false = arith.constant false", f"%zero = arith.constant 0.0 : {element}"]
    if kind != "i1":
        lowest = {"f16": "0xFC00", "bf16": "0xFF80", "f32": "0xFF800000"}
        constants.append(
            f"%lowest = arith.constant {lowest.get(kind, '0xFFF0000000000000')} : {kind}"
        )
    return seen.function(name, guarded, constants)
