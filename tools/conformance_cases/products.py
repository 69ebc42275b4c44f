"""Products of matrices in every type, with sizes that are no multiple of anything; convolutions."""

from typing import Any

import torch

from lemurc.tools.conformance_cases.case import Expression, draw, whole
from lemurc.tools.conformance_cases.elementwise import FLOATS, SHORT

SHAPES = ((1, 1, 1), (1, 7, 3), (5, 16, 9), (17, 33, 19))


def _calls(dtype: torch.dtype) -> tuple[tuple[torch.Tensor, ...], ...]:
    m, k, n = SHAPES[-1]
    return tuple(
        (draw(m, k, seed=s, dtype=dtype), draw(k, n, seed=s + 9, dtype=dtype)) for s in (0, 1)
    )


def _integers(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.to(torch.int32) @ y.to(torch.int32)


def _rows_with_nan() -> tuple[torch.Tensor, torch.Tensor]:
    x = draw(6, 8)
    x[1, 3], x[4, 0] = float("nan"), float("inf")
    return x, draw(8, 5, seed=1)


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


EXPRESSIONS = (
    *(Expression(f"matmul_{SHORT[t]}", torch.matmul, _calls(t)) for t in FLOATS),
    *(
        Expression(
            f"matmul_{m}x{k}x{n}", torch.matmul, ((draw(m, k), draw(k, n, seed=1)),)
        )
        for m, k, n in SHAPES[:-1]
    ),
    Expression(
        "matmul_i8",
        _integers,
        ((whole(6, 20, low=-128, high=128, dtype=torch.int8),
          whole(20, 7, low=-128, high=128, seed=1, dtype=torch.int8)),),
    ),
    Expression("matmul_of_nan_and_infinity", torch.matmul, (_rows_with_nan(),)),
    Expression("matrix_times_vector", torch.matmul, ((draw(9, 13), draw(13, seed=1)),)),
    Expression("batches", torch.matmul, ((draw(3, 5, 6), draw(3, 6, 7, seed=1)),)),
    Expression("transposed", lambda x, y: x.T @ y.T, ((draw(6, 5), draw(7, 6, seed=1)),)),
    Expression("attention", _attention, (tuple(draw(2, 2, 5, 8, seed=s) for s in range(3)),)),
    Expression(
        "convolution",
        lambda x, w: torch.nn.functional.conv2d(x, w, stride=2, padding=1),
        ((draw(2, 3, 9, 8), draw(4, 3, 3, 3, seed=1)),),
    ),
    Expression(
        "pooling",
        lambda x: [
            torch.nn.functional.max_pool2d(x, 2),
            torch.nn.functional.avg_pool2d(x, 3, stride=2, padding=1),
        ],
        ((draw(1, 3, 8, 8),),),
    ),
)  # fmt: skip
