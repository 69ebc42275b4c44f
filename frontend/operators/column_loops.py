"""Algorithms on matrices that take one column after the other, as loops.

Each step works on whole matrices and leaves by a mask what it must not change, so that
its sizes do not depend on the step.
"""

import functools
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


def of_real_matrices(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` where all matrices are real and of sizes that are known; PyTorch's way else."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        floats = [a for a in args if isinstance(a, Tensor) and a.dtype.is_floating_point]
        complex_ones = any(isinstance(a, Tensor) and a.is_complex() for a in args)
        known = all(isinstance(size, int) for a in floats for size in a.shape[-2:])
        wide = all(a.dtype in (torch.float32, torch.float64) for a in floats)
        return function(*args, **kwargs) if known and wide and not complex_ones else NotImplemented

    return wrapped


def require(holds: Tensor, message: str) -> None:
    torch.ops.aten._assert_async.msg(holds.all(), message)
