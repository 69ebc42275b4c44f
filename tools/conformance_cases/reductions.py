"""Sums, extremes, places, orders: NaN wins, the first of equals counts."""

import torch

from lemurc.tools.conformance_cases.case import Expression, draw
from lemurc.tools.conformance_cases.elementwise import FLOATS, SHORT


def _sums(x: torch.Tensor) -> list[torch.Tensor]:
    return [x.sum(), x.sum(-1), x.sum(0, keepdim=True), x.mean(-1)]


def _extremes(x: torch.Tensor) -> list[torch.Tensor]:
    return [x.amax(-1), x.amin(0), x.max(), x.argmax(-1), x.argmin(0)]


def _normal(x: torch.Tensor) -> list[torch.Tensor]:
    return [
        torch.softmax(x, -1),
        torch.log_softmax(x, 0),
        torch.nn.functional.layer_norm(x, x.shape[-1:]),
        x.var(-1),
        torch.linalg.vector_norm(x, dim=-1),
    ]


def _with_nan() -> torch.Tensor:
    x = draw(4, 9)
    x[1, 4] = float("nan")
    x[2, 3], x[2, 5] = float("inf"), float("-inf")
    return x


EXPRESSIONS = (
    *(
        Expression(
            f"sums_{SHORT[t]}", _sums, ((draw(7, 19, dtype=t),), (draw(7, 19, seed=1, dtype=t),))
        )
        for t in FLOATS
    ),
    Expression("extremes", _extremes, ((draw(7, 19),), (draw(7, 19, seed=1).round(),))),
    Expression(
        "nan_wins", lambda x: [x.amax(-1), x.amin(-1), x.sum(-1)], ((draw(4, 9),), (_with_nan(),))
    ),
    Expression("normalisations", _normal, ((draw(5, 12),), (9 * draw(5, 12, seed=1),))),
    Expression("running_sum", lambda x: x.cumsum(1), ((draw(3, 11),),)),
    Expression("sorted", lambda x: list(x.sort(-1)), ((draw(3, 17),),)),
    Expression("largest_few", lambda x: list(x.topk(4)), ((draw(3, 17),),)),
)
