"""Algorithms on matrices that take one column after the other, as loops.

Each step works on whole matrices and leaves by a mask what it must not change, so that
its sizes do not depend on the step.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.while_loop import while_loop_op

Step = Callable[..., tuple[Tensor, ...]]


def loop(steps: int | Tensor, step: Step, begin: Sequence[Tensor], fixed: Sequence[Tensor]) -> Any:
    """`begin` after `step(i, *values, *fixed)` for i = 0 .. steps - 1, with i of rank 0."""
    first = torch.zeros((), dtype=torch.int64, device=begin[0].device)
    count = steps if isinstance(steps, Tensor) else torch.full_like(first, steps)
    carried: Any = (first, *(value.clone() for value in begin))
    _, *end = while_loop_op(
        lambda i, *rest: i < rest[-1],
        lambda i, *rest: (i + 1, *step(i, *rest[:-1])),
        carried,
        (*fixed, count),
    )
    return end


def column(matrix: Tensor, i: Tensor) -> Tensor:
    return matrix.index_select(-1, i.reshape(1)).squeeze(-1)


def row(matrix: Tensor, i: Tensor) -> Tensor:
    return matrix.index_select(-2, i.reshape(1)).squeeze(-2)


def places(count: int, like: Tensor) -> Tensor:
    return torch.arange(count, device=like.device)


def is_real(matrix: Tensor) -> bool:
    """Whether this matrix is one the loops take: real, and of sizes that are known."""
    known = all(isinstance(size, int) for size in matrix.shape[-2:])
    return known and matrix.dtype in (torch.float32, torch.float64)


def require(holds: Tensor, message: str) -> None:
    torch.ops.aten._assert_async.msg(holds.all(), message)
