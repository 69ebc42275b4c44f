"""Write attention as two products and a softmax, where IREE's own attention is no use.

    tm_tensor.attention ins(%q, %k, %v, %mask)  ->  call @attention_parts_0(%q, %k, %v, %mask)

    s = scale * q k^T, masked    p = exp(s - max s)    result = p v / sum p

A row that may see no key is 0, as it is in PyTorch. Operands of f16 and bf16 are
multiplied as they are and summed in f32, as matrix units do. `lower-to-iree` inlines
the new functions; it cannot inline `tm_tensor.attention`. Runs on one stage before it.
"""

from dataclasses import dataclass
from typing import Any

from lemurc.targets.linalg_text import Body, Tensor, call, declare, operations

ATTENTION = "tm_tensor.attention"
NAME = "attention_parts"
_LOWEST = {"f32": "0xFF800000", "f64": "0xFFF0000000000000"}
BATCH = "abcdefgh"


def decompose_attention(module: Any, *, every: bool = True) -> None:
    """The pass `decompose-attention`, in place; without `every`, of heads of dynamic width only:
    IREE 3.13's attention sums but the first 16 of them."""
    from iree.compiler import ir

    functions: dict[_Attention, str] = {}
    for op in list(operations(module, ATTENTION)):
        found = _read(op)
        if found is None or not (every or found.operands[0].sizes[-1] is None):
            continue
        if found not in functions:
            functions[found] = f"{NAME}_{len(functions)}"
            declare(module, found.function(functions[found]))
        with ir.InsertionPoint(op):
            parts = call(functions[found], list(op.operands)[:-1], op.results[0].type, op.location)
        op.results[0].replace_all_uses_with(parts)
        op.erase()


@dataclass(frozen=True)
class _Attention:
    """What one function is made for: its operands (3, or 4 with a mask) and the scale; None
    is by the width of a head, which only a call tells.

    The axes: batch (any number), m queries, n keys, d width of a head, e width of a value.
    """

    operands: tuple[Tensor, ...]
    scale: float | None

    def function(self, name: str) -> str:
        query, _, value, *mask = self.operands
        batch = query.axes[:-2]
        scores, row, out = f"{batch}mn", f"{batch}m", f"{batch}me"
        wide = "f64" if query.element == "f64" else "f32"
        code = Body(self.operands, wide)

        s = code.contract("%query", "%key", scores, f"{scores}d")
        s = code.generic([s], scores, scores, [f"%t = arith.mulf %x, %scale : {wide}"])
        if mask:
            s = code.generic([s, "%mask"], scores, scores, _masked(mask[0].element, wide))
        maximum = [f"%t = arith.maximumf %x, %acc : {wide}"]
        largest = code.generic([s], row, scores, maximum, start="%lowest")
        exponential = [
            # A row of nothing but -inf: exp(-inf - 0) is 0 where -inf - -inf is NaN.
            f"%none = arith.cmpf oeq, %y, %lowest : {wide}",
            f"%top = arith.select %none, %zero, %y : {wide}",
            f"%u = arith.subf %x, %top : {wide}",
            f"%t = math.exp %u : {wide}",
        ]
        p = code.generic([s, largest], scores, scores, exponential)
        total = code.generic(
            [p], row, scores, [f"%t = arith.addf %x, %acc : {wide}"], start="%zero"
        )
        if value.element != wide:
            p = code.generic([p], scores, scores, ["%t = arith.mulf %x, %one : f32"], value.element)
        # Fused with the exponential, IREE's packing of p for data tiling fails to compile.
        y = code.contract(code.barrier(p), "%value", out, f"{batch}men")
        quotient = [
            f"%none = arith.cmpf oeq, %y, %zero : {wide}",
            f"%sum = arith.select %none, %one, %y : {wide}",
            f"%t = arith.divf %x, %sum : {wide}",
        ]
        result = code.generic([y, total], out, out, quotient, value.element)
        constants = {"zero": 0.0, "one": 1.0}
        if self.scale is not None:
            constants["scale"] = self.scale
        lines = [f"%{c} = arith.constant {x:.17e} : {wide}" for c, x in constants.items()]
        lines.append(f"%lowest = arith.constant {_LOWEST[wide]} : {wide}")
        if self.scale is None:
            lines += _scale_by_width(query, wide)
        return code.function(name, result, lines)


def _scale_by_width(query: Tensor, wide: str) -> list[str]:
    """1 / sqrt(width), of types that every device and IREE's host code convert."""
    whole = "i64" if wide == "f64" else "i32"
    return [
        f"%axis = arith.constant {len(query.sizes) - 1} : index",
        f"%width = tensor.dim %query, %axis : {query.type()}",
        f"%whole = arith.index_cast %width : index to {whole}",
        f"%inexact = arith.sitofp %whole : {whole} to {wide}",
        f"%root = math.sqrt %inexact : {wide}",
        f"%scale = arith.divf %one, %root : {wide}",
    ]


def _masked(mask: str, wide: str) -> list[str]:
    """From %x, the score, and %y, the mask's entry, to %t; a boolean says what is seen."""
    if mask == "i1":
        return [f"%t = arith.select %y, %x, %lowest : {wide}"]
    if mask == wide:
        return [f"%t = arith.addf %x, %y : {wide}"]
    return [f"%m = arith.extf %y : {mask} to {wide}", f"%t = arith.addf %x, %m : {wide}"]


def _read(op: Any) -> _Attention | None:
    """None for what no model makes: a mask of integers."""
    *inputs, _ = op.operands
    batch = BATCH[: len(inputs[0].type.shape) - 2]
    axes = (f"{batch}md", f"{batch}nd", f"{batch}ne", f"{batch}mn")
    names = ("%query", "%key", "%value", "%mask")
    operands = tuple(
        Tensor.of(name, letters, value)
        for name, letters, value in zip(names, axes, inputs, strict=False)
    )
    width = operands[0].sizes[-1]
    mask_kinds = {"i1", "f16", "bf16", "f32", operands[0].element}
    if any(x.element not in mask_kinds for x in operands[3:]):
        return None
    if "scale" in op.attributes:
        return _Attention(operands, float(op.attributes["scale"].value))
    return _Attention(operands, None if width is None else width**-0.5)
