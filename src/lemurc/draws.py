"""Example calls drawn at random: other values, and other sizes within the declared ranges."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lemurc.manifest import SymbolicDim, TensorSpec
from lemurc.sizes import Linear, linear
from lemurc.verification import Array, Arrays, is_inexact, widen

Shape = tuple[int, ...]


def random_inputs(
    examples: Arrays, seed: int, shapes: Sequence[Shape] | None = None
) -> list[Array]:
    """Arrays like the examples: floats with their mean and deviation, integers drawn from
    the values that occur (so that indices stay in range and masks stay masks)."""
    generator = np.random.default_rng(seed)
    drawn: list[Array] = []
    for example, shape in zip(examples, shapes or [e.shape for e in examples], strict=True):
        if example.size == 0:
            drawn.append(np.zeros(shape, example.dtype))
        elif is_inexact(example) and np.isrealobj(example):
            wide = widen(example)
            deviation = float(np.nanstd(wide)) or 1.0
            values: Array = np.asarray(generator.normal(float(np.nanmean(wide)), deviation, shape))
            drawn.append(values.astype(example.dtype))
        else:
            drawn.append(generator.choice(example.reshape(-1), shape))
    return drawn


def random_shapes(specs: Sequence[TensorSpec], examples: Arrays, seed: int) -> list[Shape]:
    """Shapes of a call with every dynamic size drawn from its range.

    Sizes stay below some three times those of the example, and above 0.
    """
    generator = np.random.default_rng(seed)
    known: dict[str, int] = {}
    shapes: list[Shape] = []
    dims = [
        (dim, size)
        for spec, example in zip(specs, examples, strict=True)
        for dim, size in zip(spec.shape, example.shape, strict=True)
        if isinstance(dim, SymbolicDim)
    ]
    for name in dict.fromkeys(_expression(dim).name for dim, _ in dims):
        known[name] = _draw(
            [(dim, size) for dim, size in dims if _expression(dim).name == name], generator
        )
    for spec in specs:
        sizes = [
            dim if isinstance(dim, int) else _expression(dim).size(known[_expression(dim).name])
            for dim in spec.shape
        ]
        shapes.append(tuple(sizes))
    return shapes


def is_dynamic(specs: Sequence[TensorSpec]) -> bool:
    return any(isinstance(dim, SymbolicDim) for spec in specs for dim in spec.shape)


def _draw(uses: Sequence[tuple[SymbolicDim, int]], generator: Any) -> int:
    """One number that suits every dimension it is used in."""
    example = _expression(uses[0][0]).number(uses[0][1])
    assert example is not None
    fitting = [
        number
        for number in range(1, 3 * example + 9)
        if all(_allowed(dim, _expression(dim).size(number)) for dim, _ in uses)
    ]
    return int(generator.choice(fitting)) if fitting else example


def _allowed(dim: SymbolicDim, size: int) -> bool:
    return (
        max(dim.min, 1) <= size
        and (dim.max is None or size <= dim.max)
        and size % dim.multiple_of == 0
    )


def _expression(dim: SymbolicDim) -> Linear:
    return linear(dim.symbol) or Linear(dim.symbol)
