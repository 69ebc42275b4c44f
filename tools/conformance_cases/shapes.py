"""Sizes that vary from call to call, none at all, and operations that only move numbers."""

import torch

from lemurc.tools.conformance_cases.case import Expression, draw, whole

ROWS = torch.export.Dim("rows", min=1, max=64)
COLUMNS = torch.export.Dim("columns", min=2, max=64)
MANY_OR_NONE = torch.export.Dim("some", min=0, max=64)


def _moves(x: torch.Tensor) -> list[torch.Tensor]:
    return [
        x.T.contiguous(), x.reshape(-1), x[1:3, ::2], x.flip(0), x.roll(1, -1),
        torch.cat([x, x], 0), torch.stack([x, x], 1), x[:, None, :].expand(-1, 3, -1).contiguous(),
        torch.nn.functional.pad(x, (1, 2)), x.tril(),
    ]  # fmt: skip


def _gathered(x: torch.Tensor, at: torch.Tensor) -> list[torch.Tensor]:
    return [x[at], torch.index_select(x, 0, at), torch.nn.functional.embedding(at, x)]


def _scaled(x: torch.Tensor) -> list[torch.Tensor]:
    return [x * x.shape[0], torch.tanh(x), x.reshape(-1).sum(), x @ x.T]


EXPRESSIONS = (
    Expression("moves", _moves, ((draw(4, 6),),), bits=True),
    Expression("gathers", _gathered, ((draw(9, 4), whole(5, low=0, high=9, dtype=torch.int64)),)),
    Expression(
        "scatters",
        lambda x, at, y: x.index_put((at,), y),
        ((draw(6, 3), torch.tensor([4, 1]), draw(2, 3, seed=1)),),
    ),
    Expression("numbers", lambda x, y: [x + y, x * 2, y > x], ((draw(), draw(seed=1)),)),
    Expression(
        "six_dimensions", lambda x: x.permute(5, 3, 1, 0, 2, 4) + 1, ((draw(2, 1, 3, 2, 1, 2),),)
    ),
    Expression(
        "rows_vary",
        _scaled,
        tuple((draw(n, 5, seed=n),) for n in (3, 1, 64, 17)),
        dynamic=(({0: ROWS},),),
    ),
    Expression(
        "softmax_of_rows_that_vary",
        lambda x: [torch.softmax(x, -1), torch.softmax(x, 0)],
        tuple((draw(n, 5, seed=n),) for n in (3, 1, 64)),
        dynamic=(({0: ROWS},),),
        needs=("dynamic-softmax",),
    ),
    Expression(
        "both_sizes_vary",
        lambda x, y: [x + y, (x * y).sum(-1), torch.cat([x, y], -1)],
        tuple((draw(m, n), draw(m, n, seed=1)) for m, n in ((4, 5), (1, 2), (33, 64))),
        dynamic=(({0: ROWS, 1: COLUMNS}, {0: ROWS, 1: COLUMNS}),),
    ),
    Expression(
        "nothing",
        lambda x: [x * 2, x.sum(-1), x.T.contiguous()],
        ((torch.zeros(0, 4),),),
    ),
    Expression("sums_of_nothing", lambda x: [x.sum(0), x.sum()], ((torch.zeros(0, 4),),)),
    Expression(
        "nothing_or_some",
        lambda x: [x * 2, x.sum(0)],
        tuple((draw(n, 4),) for n in (3, 0, 5, 0)),
        dynamic=(({0: MANY_OR_NONE},),),
        needs=("empty-tensors",),
    ),
)
