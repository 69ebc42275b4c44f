"""Our decompositions against the operators they replace."""

import itertools
from typing import Any

import pytest
import torch

from lemurc.frontend.own_decompositions import own_decompositions


@pytest.mark.parametrize(("bins", "low", "high"), [(4, 0.0, 3.0), (7, -1.0, 1.0)])
def test_histc(bins: int, low: float, high: float) -> None:
    values = torch.cat([torch.randn(50), torch.tensor([low, high, 0.0, 1.0, 2.0])])
    table = own_decompositions()
    mine = table[torch.ops.aten.histc.default](values, bins, low, high)
    torch.testing.assert_close(mine, torch.histc(values, bins, low, high))


@pytest.mark.parametrize("rows", [2, 9])
def test_grouped_products(rows: int) -> None:
    """Few rows gather weights, many go through all; the third expert gets none."""
    x, weights = torch.randn(rows, 5), torch.randn(4, 5, 3)
    ends = torch.tensor([1, rows - 1, rows - 1, rows])
    expected, start = torch.zeros(rows, 3), 0
    for expert, end in enumerate(ends.tolist()):
        expected[start:end] = x[start:end] @ weights[expert]
        start = end
    grouped = own_decompositions()[torch.ops.aten._grouped_mm.default]
    torch.testing.assert_close(grouped(x, weights, ends), expected)


TYPES = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)
OWN = own_decompositions()


def _elementwise(operator: Any) -> bool:
    """Of two tensors."""
    needed = [a for a in operator._schema.arguments if not a.has_default_value()]
    pointwise = torch.Tag.pointwise in operator.tags and len(needed) == 2
    return pointwise and all(str(a.type) == "Tensor" and not a.kwarg_only for a in needed)


@pytest.mark.parametrize("operator", [op for op in OWN if _elementwise(op)], ids=str)
def test_types_of_results(operator: Any) -> None:
    """Operands of every two types, where a tensor of rank 0 gives way to the other."""
    for left, right in itertools.product(TYPES, TYPES):
        for ranks in ((1, 0), (0, 1), (1, 1)):
            x, y = (torch.ones([3] * r, dtype=t) for r, t in zip(ranks, (left, right), strict=True))
            try:
                eager = operator(x, y)
            except (RuntimeError, NotImplementedError):
                continue  # eager has no such types
            mine = OWN[operator](x, y)
            if mine is not NotImplemented:
                mine, eager = (v if isinstance(v, tuple) else (v,) for v in (mine, eager))
                for a, b in zip(mine, eager, strict=True):
                    assert (a.dtype, a.shape) == (b.dtype, b.shape), (left, right, ranks)
