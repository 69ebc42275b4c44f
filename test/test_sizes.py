"""Symbolic sizes, and calls drawn from their ranges."""

import numpy as np
import pytest

from lemurc.draws import random_inputs, random_shapes
from lemurc.manifest import SymbolicDim, TensorSpec
from lemurc.sizes import Linear, linear


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("t", Linear("t")),
        ("4*t", Linear("t", 4)),
        ("t + 1", Linear("t", 1, 1)),
        ("2*t - 3", Linear("t", 2, -3)),
        ("3*(t + 1)", Linear("t", 3, 3)),
        ("t + t", Linear("t", 2)),
        ("a*b", None),
        ("a + b", None),
        ("t//2", None),
        ("7", None),
        ("-t", None),
        ("arg0.1", None),
    ],
)
def test_linear(text: str, want: Linear | None) -> None:
    assert linear(text) == want


def test_sizes_that_a_number_does_not_give() -> None:
    assert Linear("t", 4, 1).number(9) == 2
    assert Linear("t", 4, 1).number(8) is None


def test_drawn_shapes_keep_ranges_and_relations() -> None:
    specs = [
        TensorSpec("x", "float32", (SymbolicDim("4*t", 4, 64, 4), 3)),
        TensorSpec("y", "float32", (SymbolicDim("4*t + 1", 5, 65), SymbolicDim("n", 0, None))),
    ]
    examples = [np.zeros((8, 3), np.float32), np.zeros((9, 2), np.float32)]
    seen = set()
    for seed in range(30):
        x, y = random_shapes(specs, examples, seed)
        assert x[0] % 4 == 0 and 4 <= x[0] <= 64 and x[1] == 3
        assert y[0] == x[0] + 1 and y[1] >= 1
        seen.add((x, y))
        assert [a.shape for a in random_inputs(examples, seed, [x, y])] == [x, y]
    assert len(seen) > 10
