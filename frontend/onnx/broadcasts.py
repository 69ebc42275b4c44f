"""Sizes that meet in one operator are the same at every call, or constantly 1.

x[batch, 4] + y[1, 4]     allowed
x[m] + y[n]               refused: m = 1 would broadcast, and code for m = n reads past x
"""

from collections.abc import Iterable

import onnx

from lemurc.errors import UnsupportedModelError
from lemurc.frontend.onnx.sizes import Analysis, Tensor

_ELEMENTWISE = frozenset(
    "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less "
    "LessOrEqual Max Mean Min Mod Mul Or PRelu Pow Sub Sum Where Xor".split()
)
_BATCHES = frozenset({"MatMul", "MatMulInteger"})
_NODES_SHOWN = 5


def refuse_unproven(nodes: Iterable[onnx.NodeProto], analysis: Analysis) -> None:
    """Raise UnsupportedModelError that names all nodes whose sizes are not proven."""
    wrong = []
    for node in nodes:
        tensors = [analysis.tensors[name] for name in node.input if name]
        if node.op_type in _BATCHES:
            last = [min(len(tensor.shape), 2) for tensor in tensors[:2]]
            meets = _meets(tensors[:2], last)
        elif node.op_type in _ELEMENTWISE:
            meets = _meets(tensors, [0] * len(tensors))
        else:
            continue
        if not meets:
            wrong.append(f"{node.name} ({node.op_type})")
    if wrong:
        more = len(wrong) - _NODES_SHOWN
        raise UnsupportedModelError(
            "dynamic sizes meet that may differ, so that one of them may be broadcast",
            code="dynamic-broadcast",
            where="; ".join(wrong[:_NODES_SHOWN]) + (f" and {more} more" if more > 0 else ""),
            hint="give sizes that agree one name in the model, or fix one: "
            "--dynamic INPUT.DIMENSION=NAME:4..4",
        )


def _meets(tensors: list[Tensor], dropped: list[int]) -> bool:
    """`dropped` trailing dimensions of each tensor do not take part."""
    ranks = [len(tensor.shape) - last for tensor, last in zip(tensors, dropped, strict=True)]
    for back in range(1, max(ranks, default=0) + 1):
        sizes = set()
        for tensor, rank in zip(tensors, ranks, strict=True):
            if back <= rank and tensor.shape[rank - back] != 1:
                sizes.add(tuple(numbers[rank - back] for numbers in tensor.sizes))
        if len(sizes) > 1:
            return False
    return True
