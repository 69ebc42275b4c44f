"""RMS norm written out."""

from torch_mlir import ir

from lemurc.passes.outline import Arguments, Cloned, clone
from lemurc.passes.torch_constants import constant, defining, shape
from lemurc.passes.torch_match import CONVERSION, Refused, made_by, number, used_once
from lemurc.passes.torch_rewriter import Rewriter


def raise_rms_norm(root: ir.Operation, rewriter: Rewriter) -> bool:
    """weight * (x * rsqrt(mean(x**2, -1) + eps)) -> a composite of just these operations

    x may be widened to f32 before and the normalised value narrowed before the product
    with the weight. The body is what the model wrote, so rounding stays as it is.
    """
    for normalized, weight in (
        (root.operands[0], root.operands[1]),
        (root.operands[1], root.operands[0]),
    ):
        inner, chain = _narrowed(normalized)
        found = _normalization(inner) if inner is not None else None
        if found is not None and _is_weight(weight, root.results[0]):
            source, eps, operations = found
            return _outline(root, source, weight, eps, [*operations, *chain], rewriter)
    found = _normalization(root)
    if found is None:
        return False
    source, eps, operations = found
    return _outline(root, source, None, eps, operations[:-1], rewriter)


_Found = tuple[ir.Value, float, list[ir.Operation]]


def _narrowed(value: ir.Value) -> tuple[ir.Operation | None, list[ir.Operation]]:
    """The product below an optional change of type."""
    conversion = made_by(value, CONVERSION)
    if conversion is None:
        return made_by(value, "torch.aten.mul.Tensor"), []
    if not used_once(value):
        return None, []
    return made_by(conversion.operands[0], "torch.aten.mul.Tensor"), [conversion]


def _normalization(product: ir.Operation) -> _Found | None:
    """x, eps and the operations of x * rsqrt(mean(x**2, -1, keepdim) + eps)."""
    for value, scale in (
        (product.operands[0], product.operands[1]),
        (product.operands[1], product.operands[0]),
    ):
        rsqrt = made_by(scale, "torch.aten.rsqrt")
        shifted = made_by(rsqrt.operands[0], "torch.aten.add.Scalar") if rsqrt else None
        mean = made_by(shifted.operands[0], "torch.aten.mean.dim") if shifted else None
        if rsqrt is None or shifted is None or mean is None:
            continue
        square = _square_of(mean.operands[0], value)
        eps, sizes = number(shifted.operands[1]), shape(value)
        if square is None or eps is None or sizes is None:
            raise Refused("the mean under the root is not of the squares of the other factor")
        if constant(mean.operands[1]) not in ([-1], [len(sizes) - 1]) or not constant(
            mean.operands[2]
        ):
            raise Refused("the mean is not over the last dimension")
        if number(shifted.operands[2]) != 1.0 or constant(mean.operands[3]) is not None:
            raise Refused("the mean changes type, or epsilon is scaled")
        operations = [square, mean, shifted, rsqrt]
        if not all(used_once(operation.results[0]) for operation in operations):
            raise Refused("a value inside the norm is used elsewhere")
        return value, eps, [*operations, product]
    return None


def _square_of(value: ir.Value, factor: ir.Value) -> ir.Operation | None:
    operation = defining(value)
    if operation is None or not used_once(value):
        return None
    operands = list(operation.operands)
    if operation.name == "torch.aten.pow.Tensor_Scalar":
        return operation if operands[0] == factor and number(operands[1]) == 2.0 else None
    if operation.name == "torch.aten.mul.Tensor":
        return operation if operands[0] == factor and operands[1] == factor else None
    if operation.name == "torch.aten.square":
        return operation if operands[0] == factor else None
    return None


def _is_weight(weight: ir.Value, result: ir.Value) -> bool:
    sizes, whole = shape(weight), shape(result)
    return sizes is not None and whole is not None and len(sizes) == 1 and sizes == whole[-1:]


def _outline(
    root: ir.Operation,
    source: ir.Value,
    weight: ir.Value | None,
    eps: float,
    operations: list[ir.Operation],
    rewriter: Rewriter,
) -> bool:
    widened = made_by(source, CONVERSION)
    if widened is not None and len(list(source.uses)) <= 3:  # two factors and the square
        operations = [widened, *operations]
        source = widened.operands[0]
    roles = {"input": source} | ({"weight": weight} if weight is not None else {})
    constants = [
        operand
        for operation in [*operations, root]
        for operand in operation.operands
        if shape(operand) is None
    ]

    def build(arguments: Arguments, cloned: Cloned) -> ir.Value:
        inside = {value: arguments[role] for role, value in roles.items()}
        for operation in [*operations, root]:
            operands = [
                inside[value] if shape(value) is not None else cloned(value)
                for value in operation.operands
            ]
            inside[operation.results[0]] = clone(operation, operands)
        return inside[root.results[0]]

    attributes = {"eps": eps, "normalized_rank": 1}
    rewriter.outliner.outline("rms_norm", roles, attributes, root, constants, build)
    rewriter.bury(root)
    return True
