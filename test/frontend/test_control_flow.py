"""Unrolled control flow and recorded gradients, against eager."""

from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch.nn import functional as F
from torch.utils import _pytree as torch_pytree

from lemurc.frontend.torch_export import EntryPoint, decompose, export


class Rows(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return map_rows(lambda row, shared: (row.sin() * shared, row.sum()), x, y)


class Steps(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return scan(lambda carry, row: (carry + row, carry * row), x[0] * 0, x)


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        inner = torch.cond(x.sum() > 0, lambda v: v.sin() + 1, lambda v: v.cos() * 2, (x,))
        return torch.cond(x[0, 0] > 0, lambda v: v + 1, lambda v: v - 1, (inner,))


@pytest.mark.parametrize(
    ("model", "shapes"), [(Rows(), [(4, 3), (3,)]), (Steps(), [(5, 3)]), (Branches(), [(2, 3)])]
)
def test_control_flow(model: nn.Module, shapes: list[tuple[int, ...]]) -> None:
    args = tuple(torch.randn(shape) for shape in shapes)
    program = decompose(export(EntryPoint(model, args)))
    operators = {node.target for node in program.graph.nodes}
    assert not any(isinstance(op, torch._ops.HigherOrderOperator) for op in operators)
    for sign in (1, -1):
        given = tuple(sign * arg for arg in args)
        got, expected = program.module()(*given), model(*given)
        for mine, eager in zip(*map(torch_pytree.tree_leaves, (got, expected)), strict=True):
            torch.testing.assert_close(mine, eager)


class Trained(nn.Module):
    """Gradients by torch.func of what is input and what is a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> Any:
        def loss(x: torch.Tensor) -> torch.Tensor:
            hidden = F.avg_pool2d(F.layer_norm(x, (6,)), 2, ceil_mode=True)
            return F.cross_entropy(self.linear(F.interpolate(hidden, x.shape[-2:])[0, 0]), target)

        return torch.func.grad_and_value(loss)(x)


def test_gradients_inside_the_model() -> None:
    model, args = Trained(), (torch.randn(1, 2, 5, 6), torch.tensor([0, 3, 1, 2, 2]))
    program = decompose(export(EntryPoint(model, args)))
    other = (torch.randn(1, 2, 5, 6), torch.tensor([3, 3, 0, 1, 2]))
    for given in (args, other):
        for mine, eager in zip(program.module()(*given), model(*given), strict=True):
            torch.testing.assert_close(mine, eager.detach())
    assert set(program.state_dict)  # the weights are still weights
