"""Random straight-line programs of PyTorch calls, drawn by a seed.

A program grows one statement at a time, and eager runs each statement as it is drawn, on
`VARIANTS` sets of inputs: the first looks real, the others hold special values and, where
sizes are dynamic, other sizes. A statement that eager refuses is drawn again.

Two things keep the comparison sharp without a tolerance of its own:

- every value knows whether it is *exact*, the same bits whatever the order of rounding.
  Functions that jump (floor, comparisons, indices, casts to integers) take only exact values;
- every inexact statement is run in float64 too (its *shadow*), and drawn again when eager is
  further from that than an eighth of what verification allows, or has other NaNs.

Hypothesis is not used: an example costs a compilation, so its shrinking by hundreds of runs
costs minutes. A straight-line program shrinks by cutting statements, in some ten runs
(fuzz_reduce.py), and its source stays readable.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F

from lemurc.frontend.ties import StableTies
from lemurc.verification import TOLERANCE

VARIANTS = 3
MAX_ELEMENTS = 1500
FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
DTYPES = (*FLOATS, *INTEGERS, "bool")
WEIGHTS = (8, 3, 3, 2, 4, 4, 1, 2, 2, 3)
LARGEST = {"float16": 1e3, "bfloat16": 1e6, "float32": 1e6, "float64": 1e8}
SMALLEST_SCALE = 1e-4
ATTEMPTS = 30
_FLOAT_NAMES = re.compile(r"torch\.(float16|bfloat16|float32)\b")


@dataclass(frozen=True)
class Value:
    """An input or a result; `tensors` and `shadows` have one entry per variant."""

    name: str
    tensors: tuple[torch.Tensor, ...]
    shadows: tuple[torch.Tensor, ...]
    exact: bool

    @property
    def dtype(self) -> str:
        return str(self.tensors[0].dtype).removeprefix("torch.")

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensors[0].shape)

    @property
    def rank(self) -> int:
        return self.tensors[0].dim()

    @property
    def least(self) -> tuple[int, ...]:
        """The smallest size of each dimension over the variants."""
        return tuple(min(sizes) for sizes in self.sizes)

    @property
    def sizes(self) -> tuple[tuple[int, ...], ...]:
        """Per dimension, its size in each variant."""
        return tuple(zip(*(tensor.shape for tensor in self.tensors), strict=True))

    def is_static(self, dim: int) -> bool:
        return len(set(self.sizes[dim])) == 1


@dataclass(frozen=True)
class Step:
    """The statement `name = expression`, which uses `operands`."""

    name: str
    kind: str
    expression: str
    operands: tuple[str, ...]


@dataclass(frozen=True)
class Graph:
    """A program; `symbols` are its dynamic sizes, one entry per variant."""

    number: int
    inputs: tuple[str, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    values: dict[str, Value] = field(repr=False)
    symbols: dict[str, tuple[int, ...]]

    def dynamic_dims(self, name: str) -> dict[int, str]:
        sizes = self.values[name].sizes
        return {
            dim: symbol
            for dim, own in enumerate(sizes)
            for symbol, theirs in self.symbols.items()
            if own == theirs
        }


Made = tuple[str, tuple[Value, ...], bool]
"""An expression of the operands' names, the operands, and whether the result is exact."""
Kind = Callable[["Draw"], Made | None]


@dataclass
class Draw:
    """What a kind draws its operands with."""

    rng: random.Random
    prefix: str
    symbols: dict[str, tuple[int, ...]]
    values: dict[str, Value] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    fresh: dict[str, Value] = field(default_factory=dict)
    made: int = 0
    drawn: int = 0

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def pick(
        self,
        dtypes: tuple[str, ...] = DTYPES,
        ranks: tuple[int, ...] = (0, 1, 2, 3, 4),
        *,
        exact: bool = False,
        accept: Callable[[Value], bool] = lambda value: True,
    ) -> Value:
        """A value of the program so far, often a late one, or a new input."""
        found = [
            value
            for value in self.values.values()
            if value.dtype in dtypes
            and value.rank in ranks
            and (value.exact or not exact)
            and accept(value)
        ]
        if found and self.chance(0.85):
            return self.rng.choice(found[-5:] if self.chance(0.7) else found)
        weights = [WEIGHTS[DTYPES.index(dtype)] for dtype in dtypes]
        return self.new(
            self.rng.choices(dtypes, weights)[0],
            self.dims(self.rng.choice([r for r in ranks if r != 0] or [0])),
        )

    def dims(self, rank: int) -> tuple[tuple[int, ...], ...]:
        """Sizes of a new input, per variant; one of its dimensions may be dynamic."""
        top = (17, 17, 9, 7, 5)[rank]
        dims = [(self.rng.randint(2 if rank > 2 else 1, top),) * VARIANTS for _ in range(rank)]
        if self.symbols and rank and self.chance(0.7):
            dims[self.rng.randrange(rank)] = self.rng.choice(list(self.symbols.values()))
        return tuple(dims)

    def known(self, sizes: tuple[int, ...]) -> bool:
        """Can an input have this dimension: a constant or one of the symbols?"""
        return len(set(sizes)) == 1 or sizes in self.symbols.values()

    def new(
        self,
        dtype: str,
        dims: tuple[tuple[int, ...], ...],
        *,
        low: int | None = None,
        high: int | None = None,
    ) -> Value:
        """A new input; integers from `low` up to but not including `high` when given."""
        name = f"{self.prefix}a{self.drawn}"
        self.drawn += 1
        style = self.rng.random()
        tensors = []
        for variant in range(VARIANTS):
            shape = tuple(sizes[variant] for sizes in dims)
            generator = torch.Generator().manual_seed(self.rng.getrandbits(48))
            if low is not None and high is not None:
                drawn = torch.randint(low, high, shape, generator=generator)
                tensors.append(drawn.to(getattr(torch, dtype)))
            else:
                tensors.append(_values(dtype, shape, generator, style, variant > 0))
        value = Value(name, tuple(tensors), tuple(map(_widened, tensors)), True)
        self.fresh[name] = value
        return value

    def like(self, value: Value, dtype: str | None = None, *, broadcast: bool = True) -> Value:
        """A new input of the value's shape, or of one that broadcasts to it."""
        dims = [sizes if self.known(sizes) else (1,) * VARIANTS for sizes in value.sizes]
        if broadcast and self.chance(0.3):
            dims = dims[self.rng.randint(0, len(dims)) :]
        if broadcast and dims and self.chance(0.2):
            dims[self.rng.randrange(len(dims))] = (1,) * VARIANTS
        return self.new(dtype or value.dtype, tuple(dims))

    def other(self, value: Value, *, exact: bool = False, mixed: bool = True) -> Value:
        """A second operand of an elementwise function, mostly of the same dtype."""
        found = [
            other
            for other in self.values.values()
            if other is not value
            and (other.exact or not exact)
            and _broadcastable(value, other)
            and (other.dtype == value.dtype or (mixed and self.chance(0.1)))
        ]
        if found and self.chance(0.7):
            return self.rng.choice(found)
        return self.like(value)

    def dim(self, value: Value) -> int:
        """One of its dimensions, counted from the front or from the back."""
        return self.rng.randrange(-value.rank, value.rank)

    def add(self, kind: str, make: Kind) -> Step | None:
        """Draw a statement of this kind and run it, or return None when it does not do."""
        self.fresh = {}
        made = make(self)
        if made is None:
            return None
        expression, operands, exact = made
        exact = exact and all(operand.exact for operand in operands)
        name = f"{self.prefix}v{self.made}"
        value = _evaluated(name, expression, operands, exact)
        if value is None:
            return None
        for operand in operands:
            if operand.name in self.fresh and operand.name not in self.values:
                self.values[operand.name] = operand
                self.inputs.append(operand.name)
        self.made += 1
        self.values[name] = value
        return Step(name, kind, expression, tuple(dict.fromkeys(o.name for o in operands)))


def draw_graph(seed: int, number: int, kinds: dict[str, Kind]) -> Graph:
    """Graph `number` of this seed: 6 to 30 statements, a third of them of dynamic sizes."""
    rng = random.Random(f"{seed}/{number}")
    symbols = {}
    if rng.random() < 1 / 3:
        for index in range(rng.choice((1, 1, 2))):
            start = rng.randint(4, 9)
            symbols[f"g{number}_d{index}"] = (start, start + 3 + index, start + 9 - index)
    draw = Draw(rng, f"g{number}_", symbols)
    steps: list[Step] = []
    wanted = rng.randint(6, 30)
    names = list(kinds)
    for _ in range(wanted * ATTEMPTS):
        if len(steps) == wanted:
            break
        kind = rng.choice(names)
        step = draw.add(kind, kinds[kind])
        if step is not None:
            steps.append(step)
    used = {operand for step in steps for operand in step.operands}
    outputs = [s.name for s in steps if s.name not in used or rng.random() < 0.3]
    return Graph(number, tuple(draw.inputs), tuple(steps), tuple(outputs), draw.values, symbols)


def run(expression: str, environment: dict[str, torch.Tensor]) -> torch.Tensor:
    """The expression's value in eager."""
    with torch.no_grad(), StableTies():
        result: torch.Tensor = eval(
            expression, {"torch": torch, "F": F, "inf": float("inf")}, environment
        )
    return result


def _evaluated(
    name: str, expression: str, operands: tuple[Value, ...], exact: bool
) -> Value | None:
    shadow_expression = _FLOAT_NAMES.sub("torch.float64", expression)
    tensors, shadows = [], []
    for variant in range(VARIANTS):
        try:
            tensor = run(expression, {o.name: o.tensors[variant] for o in operands})
            floating = tensor.is_floating_point()
            if tensor.numel() > MAX_ELEMENTS or not tensor.numel() or tensor.is_complex():
                return None
            if exact or not floating:
                shadow = _widened(tensor)
            else:
                shadow = run(shadow_expression, {o.name: o.shadows[variant] for o in operands})
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            return None
        if not floating and not exact:
            return None
        if floating and not _well_conditioned(tensor, shadow, exact):
            return None
        if _asks_for_signs_of_zeros(tensor, expression, operands, variant):
            return None
        tensors.append(tensor.clone())
        shadows.append(shadow)
    if len({(tensor.dtype, tensor.dim()) for tensor in tensors}) != 1:
        return None
    return Value(name, tuple(tensors), tuple(shadows), exact)


def _asks_for_signs_of_zeros(
    tensor: torch.Tensor, expression: str, operands: tuple[Value, ...], variant: int
) -> bool:
    """Does the result depend on the sign of a zero that was computed with rounding?

    Eager's own kernels disagree on such signs: softshrink gives 0.0 in its vectorised part
    and -0.0 in the rest.
    """
    environment = {o.name: o.tensors[variant] for o in operands}
    zeros = {
        o.name: o.tensors[variant]
        for o in operands
        if not o.exact and bool((o.tensors[variant] == 0).any())
    }
    if not zeros:
        return False
    for zero in (0.0, -0.0):
        signed = {name: torch.where(x == 0, zero, x) for name, x in zeros.items()}
        other = run(expression, environment | signed)
        wide, far = tensor.double().nan_to_num(), other.double().nan_to_num()
        if not torch.allclose(wide, far, rtol=1e-6, atol=1e-9):
            return True
    return False


def _well_conditioned(tensor: torch.Tensor, shadow: torch.Tensor, exact: bool) -> bool:
    dtype = str(tensor.dtype).removeprefix("torch.")
    wide = tensor.double()
    finite = wide.isfinite()
    if exact:
        return True
    if shadow.shape != tensor.shape or not torch.equal(finite, shadow.isfinite()):
        return False
    if not torch.equal(wide[~finite].nan_to_num(), shadow[~finite].nan_to_num()):
        return False
    if not finite.any():
        return not dtype.endswith("16")
    scale = float(shadow[finite].abs().max())
    if not scale:
        return bool((wide[finite] == 0).all())
    if not SMALLEST_SCALE < scale < LARGEST[dtype]:
        return False
    error = float((wide[finite] - shadow[finite]).abs().max()) / scale
    return error <= TOLERANCE[dtype] / 8


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _broadcastable(value: Value, other: Value) -> bool:
    try:
        for a, b in zip(value.tensors, other.tensors, strict=True):
            torch.broadcast_shapes(a.shape, b.shape)
    except RuntimeError:
        return False
    return True


def _values(
    dtype: str, shape: tuple[int, ...], generator: torch.Generator, style: float, special: bool
) -> torch.Tensor:
    """Values that look real: normal ones, ties on halves, small integers, whole ranges."""
    kind: torch.dtype = getattr(torch, dtype)
    if dtype == "bool":
        return torch.rand(shape, generator=generator) < 0.5
    if dtype in FLOATS:
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
        if style < 0.3:
            drawn = (drawn * 2).round() / 2
        elif style < 0.4:
            drawn = drawn * 20
        if special and style > 0.6:
            _scatter(drawn, (-0.0, 0.0, 1.0, -1.0, 0.5, -2.5), generator)
        if special and style > 0.85:
            _scatter(drawn, (float("nan"), float("inf"), -float("inf")), generator)
        return drawn.to(kind)
    info = torch.iinfo(kind)
    wide = style < 0.3 and info.bits < 16
    low, high = (info.min, info.max + 1) if wide else (max(info.min, -9), 12)
    drawn = torch.randint(low, high, shape, generator=generator).to(kind)
    if special and style > 0.75:
        _scatter(drawn, (info.min, info.max, info.max - 1), generator)
    return drawn


def _scatter(tensor: torch.Tensor, values: tuple[float, ...], generator: torch.Generator) -> None:
    """Overwrite up to three entries."""
    flat = tensor.view(-1)
    for _ in range(min(3, flat.numel() // 4)):
        where = int(torch.randint(flat.numel(), (), generator=generator))
        flat[where] = values[int(torch.randint(len(values), (), generator=generator))]
