"""Attention written out with two matrix products and a softmax."""

from torch_mlir import ir

from lemurc.passes.torch_constants import constant, shape
from lemurc.passes.torch_match import Refused, made_by, number, through_conversion, used_once
from lemurc.passes.torch_operations import create
from lemurc.passes.torch_operations import number as number_constant
from lemurc.passes.torch_rewriter import Rewriter

_PRODUCTS = ("torch.aten.matmul", "torch.aten.bmm")
_SOFTMAXES = ("torch.aten.softmax.int", "torch.aten._softmax")


def raise_attention(root: ir.Operation, rewriter: Rewriter) -> bool:
    """softmax(q @ k.T * scale + mask, -1) @ v -> scaled_dot_product_attention(q, k, v, mask)"""
    weights, value = root.operands[0], root.operands[1]
    softmax = made_by(through_conversion(weights), *_SOFTMAXES)
    if softmax is None:
        return False
    sizes = shape(softmax.results[0])
    if sizes is None or len(sizes) < 3 or constant(softmax.operands[1]) not in (-1, len(sizes) - 1):
        raise Refused("the softmax is not over the last dimension of a batch")
    if not used_once(weights) or not used_once(softmax.results[0]):
        raise Refused("the attention weights are used elsewhere")
    scores, mask = _masked(softmax.operands[0])
    scores, scale = _scaled(scores)
    product = made_by(scores, *_PRODUCTS)
    if product is None:
        raise Refused("the softmax is not of a scaled and masked product")
    query, query_scale = _scaled(product.operands[0])
    key, key_scale = _scaled(product.operands[1])
    key = _transposed(key)
    if not _same_batches(query, key, value):
        raise Refused("query, key and value differ in their batch dimensions")
    if mask is not None and shape(mask) is None:
        raise Refused("the mask is no ranked tensor")
    with ir.InsertionPoint(root), root.location:
        none, false = number_constant(None), number_constant(False)
        operands = [
            query,
            key,
            value,
            none if mask is None else mask,
            number_constant(0.0),
            false,
            number_constant(scale * query_scale * key_scale),
            false,
        ]
        name = "torch.aten.scaled_dot_product_attention"
        rewriter.replace(root, create(name, operands, root.results[0].type))
    return True


def _masked(scores: ir.Value) -> tuple[ir.Value, ir.Value | None]:
    """Scores and what is added to them."""
    scores = through_conversion(scores)
    add = made_by(scores, "torch.aten.add.Tensor")
    if add is None:
        return scores, None
    if number(add.operands[2]) != 1.0 or not used_once(scores):
        raise Refused("the masked scores are used elsewhere")
    for product, mask in (
        (add.operands[0], add.operands[1]),
        (add.operands[1], add.operands[0]),
    ):
        if made_by(_scaled(product)[0], *_PRODUCTS) and product.type == add.results[0].type:
            return product, mask
    raise Refused("what is added to is no scaled product")


def _scaled(value: ir.Value) -> tuple[ir.Value, float]:
    """A value and the number it is multiplied by."""
    operation = made_by(value, "torch.aten.mul.Scalar", "torch.aten.div.Scalar")
    if operation is None or not used_once(value):
        return value, 1.0
    by = number(operation.operands[1])
    if not by:
        return value, 1.0
    return operation.operands[0], by if operation.name == "torch.aten.mul.Scalar" else 1 / by


def _transposed(value: ir.Value) -> ir.Value:
    """k of k.T, the last two dimensions exchanged."""
    sizes = shape(value)
    permute = made_by(value, "torch.aten.permute")
    transpose = made_by(value, "torch.aten.transpose.int")
    if permute is not None and sizes is not None:
        rank = len(sizes)
        order = constant(permute.operands[1])
        if [axis % rank for axis in order] == [*range(rank - 2), rank - 1, rank - 2]:
            return permute.operands[0]
    if transpose is not None and sizes is not None:
        axes = {constant(operand) % len(sizes) for operand in list(transpose.operands)[1:]}
        if axes == {len(sizes) - 1, len(sizes) - 2}:
            return transpose.operands[0]
    raise Refused("the key is not transposed in its last two dimensions")


def _same_batches(*values: ir.Value) -> bool:
    shapes = [shape(value) for value in values]
    if any(sizes is None or len(sizes) < 3 for sizes in shapes):
        return False
    return all(sizes[:-2] == shapes[0][:-2] for sizes in shapes if sizes and shapes[0])
