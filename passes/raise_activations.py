"""SiLU and GELU written out."""

from torch_mlir import ir

from lemurc.passes.torch_constants import defining
from lemurc.passes.torch_match import (
    Refused,
    close,
    factors,
    made_by,
    number,
    polynomial,
    used_once,
)
from lemurc.passes.torch_operations import create, string
from lemurc.passes.torch_rewriter import Rewriter

_SQRT_2_OVER_PI = 0.7978845608028654
_SQRT_HALF = 0.7071067811865476
_CUBIC = 0.044715


def raise_silu(root: ir.Operation, rewriter: Rewriter) -> bool:
    """x * sigmoid(x) -> silu(x)"""
    left, right = root.operands
    for value, gate in ((left, right), (right, left)):
        sigmoid = made_by(gate, "torch.aten.sigmoid")
        if sigmoid is None:
            continue
        if sigmoid.operands[0] != value:
            raise Refused("the sigmoid gates another value than it is of")
        with ir.InsertionPoint(root), root.location:
            rewriter.replace(root, create("torch.aten.silu", [value], root.results[0].type))
        return True
    return False


def raise_gelu(root: ir.Operation, rewriter: Rewriter) -> bool:
    """0.5 * x * (1 + f(u(x))) -> gelu(x), f tanh or erf, in whatever order it is written"""
    coefficient, tensors = factors(root.results[0])
    gates = [(tensor, _one_plus(tensor)) for tensor in tensors]
    found = next(((tensor, inner) for tensor, inner in gates if inner is not None), None)
    if found is None or len(tensors) != 2:
        return False
    gate, inner = found
    value = next(tensor for tensor in tensors if tensor != gate)
    if value.type != root.results[0].type:
        raise Refused("the factors have different shapes")
    terms = polynomial(inner.operands[0], value)
    terms = {power: term for power, term in (terms or {}).items() if term}
    if not close(coefficient, 0.5) or not terms:
        raise Refused(f"{inner.name} of something that is no polynomial of the other factor")
    if inner.name == "torch.aten.tanh":
        expected, approximate = {1: _SQRT_2_OVER_PI, 3: _SQRT_2_OVER_PI * _CUBIC}, "tanh"
    else:
        expected, approximate = {1: _SQRT_HALF}, "none"
    if terms.keys() != expected.keys() or not all(
        close(terms[power], expected[power]) for power in expected
    ):
        raise Refused(f"its polynomial {terms} is not GELU's {expected}")
    with ir.InsertionPoint(root), root.location:
        operands = [value, string(approximate)]
        rewriter.replace(root, create("torch.aten.gelu", operands, root.results[0].type))
    return True


def _one_plus(value: ir.Value) -> ir.Operation | None:
    """The tanh or erf in 1 + tanh(u)."""
    add = made_by(value, "torch.aten.add.Scalar")
    if add is None or not used_once(value):
        return None
    if number(add.operands[1]) != 1.0 or number(add.operands[2]) != 1.0:
        return None
    inner = defining(add.operands[0])
    return inner if inner and inner.name in ("torch.aten.tanh", "torch.aten.erf") else None
