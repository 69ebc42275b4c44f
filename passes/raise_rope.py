"""Rotary position embedding, the form that rotates halves."""

from torch_mlir import ir

from lemurc.passes.outline import Arguments, Cloned, clone
from lemurc.passes.torch_constants import constant, shape
from lemurc.passes.torch_match import Refused, made_by, number, used_once
from lemurc.passes.torch_rewriter import Rewriter


def raise_rope(root: ir.Operation, rewriter: Rewriter) -> bool:
    """x * cos + cat(-x[..., h:], x[..., :h]) * sin -> a composite of just these operations"""
    if number(root.operands[2]) != 1.0:
        return False
    for straight, turned in (
        (root.operands[0], root.operands[1]),
        (root.operands[1], root.operands[0]),
    ):
        found = _rotation(turned)
        if found is None:
            continue
        value, sin, operations = found
        product = made_by(straight, "torch.aten.mul.Tensor")
        if product is None or value not in list(product.operands):
            raise Refused("the value added to the rotated half is no product with it")
        factors = list(product.operands)
        cos = factors[1] if factors[0] == value else factors[0]
        inner = [*operations, product]
        if not all(used_once(operation.results[0]) for operation in inner):
            raise Refused("a value inside the rotation is used elsewhere")
        _outline(root, {"input": value, "cos": cos, "sin": sin}, inner, rewriter)
        return True
    return False


def _rotation(value: ir.Value) -> tuple[ir.Value, ir.Value, list[ir.Operation]] | None:
    """x, sin and the operations of cat(-x[h:], x[:h]) * sin."""
    product = made_by(value, "torch.aten.mul.Tensor")
    if product is None:
        return None
    for half, sin in (
        (product.operands[0], product.operands[1]),
        (product.operands[1], product.operands[0]),
    ):
        cat = made_by(half, "torch.aten.cat")
        parts = made_by(cat.operands[0], "torch.prim.ListConstruct") if cat else None
        if cat is None or parts is None or len(parts.operands) != 2:
            continue
        negated = made_by(parts.operands[0], "torch.aten.neg")
        upper = made_by(negated.operands[0], "torch.aten.slice.Tensor") if negated else None
        lower = made_by(parts.operands[1], "torch.aten.slice.Tensor")
        if negated is None or upper is None or lower is None:
            continue
        source, sizes = upper.operands[0], shape(upper.operands[0])
        if lower.operands[0] != source or not sizes or sizes[-1] % 2 or sizes[-1] < 0:
            raise Refused("the two halves are not of one value of even size")
        rank, whole = len(sizes), sizes[-1]
        if constant(cat.operands[1]) not in (-1, rank - 1):
            raise Refused("the halves are not joined along the last dimension")
        if _bounds(lower, rank, whole) != (0, whole // 2):
            raise Refused("the first slice is not the lower half")
        if _bounds(upper, rank, whole) != (whole // 2, whole):
            raise Refused("the second slice is not the upper half")
        return source, sin, [lower, upper, negated, parts, cat, product]
    return None


def _bounds(slice_: ir.Operation, rank: int, whole: int) -> tuple[int, int] | None:
    """Start and end of a slice of step 1 along the last dimension."""
    dim, start, end, step = (constant(operand) for operand in list(slice_.operands)[1:])
    if dim not in (-1, rank - 1) or step != 1:
        return None
    if not isinstance(start, int) or not isinstance(end, int):
        return None
    return start, whole if end >= whole else end


def _outline(
    root: ir.Operation,
    roles: dict[str, ir.Value],
    operations: list[ir.Operation],
    rewriter: Rewriter,
) -> None:
    made = {operation.results[0] for operation in operations} | set(roles.values())
    constants = [
        operand
        for operation in [*operations, root]
        for operand in operation.operands
        if operand not in made
    ]

    def build(arguments: Arguments, cloned: Cloned) -> ir.Value:
        inside = {value: arguments[role] for role, value in roles.items()}
        for operation in [*operations, root]:
            operands = [
                inside[value] if value in inside else cloned(value) for value in operation.operands
            ]
            inside[operation.results[0]] = clone(operation, operands)
        return inside[root.results[0]]

    rewriter.outliner.outline("rope", roles, {}, root, constants, build)
    rewriter.bury(root)
