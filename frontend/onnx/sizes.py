"""Dynamic sizes of an ONNX model: what is declared, and what every tensor makes of it.

A `dim_param` is a size of the call, one number wherever it is named; a dimension without
any is a size of its own. The graph is walked at several choices of all sizes: what is the
same at each is a constant, and what differs is dynamic.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from lemurc.errors import UnsupportedModelError, UsageError
from lemurc.frontend.onnx.read import OnnxModel
from lemurc.frontend.onnx.shapes import Known, ShapesUnknown, walk
from lemurc.frontend.program import Array
from lemurc.manifest import SymbolicDim

_CHOICES = 3
_SPREAD = 12
_LARGE = 1_000_003
"""Stands for sizes without a bound: tables that end somewhere show."""
_DYNAMIC = re.compile(
    r"(?P<input>.+)\.(?P<axis>\d+)=(?P<symbol>[A-Za-z_]\w*)(?::(?P<min>\d+)\.\.(?P<max>\d+)?)?"
)

Shape = tuple[int | SymbolicDim, ...]


@dataclass(frozen=True)
class Tensor:
    """A tensor over all choices: None is a dynamic size, `sizes` its numbers by choice."""

    elements: int
    shape: tuple[int | None, ...]
    sizes: tuple[tuple[int, ...], ...]
    value: Array | None


@dataclass(frozen=True)
class Analysis:
    """`choices[0]` is where the example call is made; the last has all sizes at their least."""

    symbols: dict[str, SymbolicDim]
    choices: tuple[dict[str, int], ...]
    tensors: dict[str, Tensor]

    def symbolic(self, name: str) -> Shape:
        """The shape of a tensor in the names of the inputs' sizes."""
        tensor = self.tensors[name]
        return tuple(
            self._expression(name, axis) if size is None else size
            for axis, size in enumerate(tensor.shape)
        )

    def _expression(self, name: str, axis: int) -> SymbolicDim:
        numbers = [sizes[axis] for sizes in self.tensors[name].sizes]
        for symbol, dim in self.symbols.items():
            values = [choice[symbol] for choice in self.choices]
            factor, rest = divmod(numbers[-2] - numbers[-1], values[-2] - values[-1])
            offset = numbers[0] - factor * values[0]
            pairs = zip(numbers, values, strict=True)
            if rest or factor < 1 or any(n != factor * v + offset for n, v in pairs):
                continue
            spelled = (f"{factor}*" if factor > 1 else "") + symbol
            spelled += f" + {offset}" if offset > 0 else f" - {-offset}" if offset else ""
            largest = None if dim.max is None else factor * dim.max + offset
            return SymbolicDim(spelled, factor * dim.min + offset, largest)
        return SymbolicDim(f"{name}.{axis}", 0)


def declare(model: OnnxModel, dynamic: Sequence[str]) -> dict[str, SymbolicDim]:
    """Name every size of the inputs, in `model` too, and give each its range.

    `dynamic` is the command line's: `ids.1=seq:1..512` or `0.1=seq:1..512` renames a size
    and bounds it; a range of one number makes it a constant. Without, it is 1 or more.
    """
    symbols: dict[str, SymbolicDim] = {}
    for value in model.inputs:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):
                dim.dim_param = dim.dim_param or f"{value.name}.{axis}"
                symbols[dim.dim_param] = SymbolicDim(dim.dim_param, 1)
    for text in dynamic:
        match = _DYNAMIC.fullmatch(text)
        if match is None:
            raise UsageError(
                f"--dynamic {text} is not INPUT.DIMENSION=NAME:MIN..MAX",
                code="bad-dynamic-spec",
                hint="for example 0.1=seq:1..512, or ids.1=seq:1..512",
            )
        _bound(model, symbols, match, text)
    return symbols


def _bound(
    model: OnnxModel, symbols: dict[str, SymbolicDim], match: re.Match[str], text: str
) -> None:
    axis, inputs = int(match["axis"]), model.inputs
    named = [value for value in inputs if value.name == match["input"]]
    if match["input"].isdigit() and int(match["input"]) < len(inputs):
        named = named or [inputs[int(match["input"])]]
    dims = named[0].type.tensor_type.shape.dim if named else []
    if axis >= len(dims) or dims[axis].HasField("dim_value"):
        what = "no such input and dimension"
        if axis < len(dims):
            what = f"the size {dims[axis].dim_value} there, which is fixed"
        raise UsageError(
            f"--dynamic {text}: the model has {what}",
            code="bad-dynamic-spec",
            hint=f"its dynamic sizes: {', '.join(symbols) or 'none'}; "
            f"its inputs: {', '.join(value.name for value in inputs)}",
        )
    low = max(int(match["min"] or 1), 1)
    high = int(match["max"]) if match["max"] else None
    if high is not None and high < low:
        raise UsageError(f"--dynamic {text}: {low} is more than {high}", code="bad-dynamic-spec")
    old = dims[axis].dim_param
    del symbols[old]
    fixed = low == high
    if not fixed:
        symbols[match["symbol"]] = SymbolicDim(match["symbol"], low, high)
    for value in inputs:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == old and not dim.HasField("dim_value"):
                if fixed:
                    dim.dim_value = low
                else:
                    dim.dim_param = match["symbol"]


def analyse(
    model: OnnxModel, symbols: Mapping[str, SymbolicDim], example: Mapping[str, int]
) -> Analysis:
    """`example` gives sizes of the example call; else they are chosen.

    Every choice must suit the model. Sizes are distinct where the ranges allow it, so that
    two that have to agree do not do so by chance.
    """
    for name, size in example.items():
        if name in symbols and not _allows(symbols[name], size):
            raise UsageError(
                f"the example call has {name} = {size}, outside its range",
                code="example-mismatch",
                hint="declare a range that holds it: --dynamic INPUT.DIMENSION=NAME:MIN..MAX",
            )
    draw = random.Random(0)
    choices = [{name: example[name] for name in symbols}] if example else []
    choices += [_chosen(symbols, draw) for _ in range(_CHOICES)]
    choices.append({name: dim.max or _LARGE + at for at, (name, dim) in enumerate(symbols.items())})
    choices.append({name: dim.min for name, dim in symbols.items()})
    if not symbols:
        choices = [{}]
    walks = [(choice, _walk(model, choice)) for choice in choices]
    return _merged(dict(symbols), walks)


def _allows(dim: SymbolicDim, size: int) -> bool:
    return dim.min <= size and (dim.max is None or size <= dim.max)


def _walk(model: OnnxModel, sizes: Mapping[str, int]) -> dict[str, Known]:
    try:
        return walk(model, sizes)
    except ShapesUnknown as error:
        where = f"{error.node.name} ({error.node.op_type})"
        if sizes:
            spelled = ", ".join(f"{name} = {size}" for name, size in sizes.items())
            raise UnsupportedModelError(
                f"the model does not suit every size it declares, such as {spelled}: "
                f"{error.reason}",
                code="onnx-sizes",
                where=where,
                hint="say which sizes there are with --dynamic INPUT.DIMENSION=NAME:MIN..MAX; "
                "NAME:4..4 fixes one",
            ) from error
        raise UnsupportedModelError(
            f"the shapes of the model cannot be inferred: {error.reason}",
            code="onnx-shapes",
            where=where,
            hint="results as long as their values say cannot be compiled from ONNX; otherwise "
            "the model is not valid: check it with onnx.checker.check_model",
        ) from error


def _chosen(symbols: Mapping[str, SymbolicDim], draw: random.Random) -> dict[str, int]:
    chosen: dict[str, int] = {}
    for name, dim in symbols.items():
        low = max(dim.min, 2) if dim.max != 1 else 1
        high = low + _SPREAD + len(symbols)
        sizes = range(low, (high if dim.max is None else min(dim.max, high)) + 1)
        chosen[name] = draw.choice([n for n in sizes if n not in chosen.values()] or sizes)
    return chosen


def _merged(
    symbols: dict[str, SymbolicDim], walks: list[tuple[dict[str, int], dict[str, Known]]]
) -> Analysis:
    tensors = {}
    for name, first in walks[0][1].items():
        found = [known[name] for _, known in walks]
        if len({len(item.shape) for item in found}) > 1:
            raise UnsupportedModelError(
                f"the number of dimensions of {name!r} depends on sizes", code="onnx-shapes"
            )
        sizes = tuple(item.shape for item in found)
        shape = tuple(
            numbers[0] if len(set(numbers)) == 1 else None for numbers in zip(*sizes, strict=True)
        )
        same = all(_equal(item.value, first.value) for item in found)
        tensors[name] = Tensor(first.elements, shape, sizes, first.value if same else None)
    return Analysis(symbols, tuple(choice for choice, _ in walks), tensors)


def _equal(one: Array | None, other: Array | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and one.tobytes() == other.tobytes()


def example_sizes(
    values: Sequence[onnx.ValueInfoProto], arrays: Sequence[np.ndarray]
) -> dict[str, int]:
    """The numbers that the arrays of an example call give to the sizes."""
    return {
        dim.dim_param: size
        for value, array in zip(values, arrays, strict=True)
        for dim, size in zip(value.type.tensor_type.shape.dim, array.shape, strict=True)
        if not dim.HasField("dim_value")
    }
