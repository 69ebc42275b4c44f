"""Binding a Python call to the flat inputs of a function, and checking them first."""

import difflib
from collections.abc import Sequence
from typing import Any

import ml_dtypes  # noqa: F401  (makes NumPy know bfloat16 and float8 by name)
import numpy as np

from lemurc.errors import InputError
from lemurc.manifest import Function, SymbolicDim, TensorSpec
from lemurc.pytree import CONSTANTS, flatten
from lemurc.runtime.input_updates import check_writable
from lemurc.runtime.input_values import check_values
from lemurc.sizes import Linear, linear

Dims = tuple[int | SymbolicDim, ...]


class Signature:
    """The arguments one entry point takes."""

    def __init__(self, name: str, function: Function) -> None:
        self.name = name
        self.function = function
        self.updated = sorted(int(index) for index in function.input_updates)
        self._linear = {
            dim.symbol: linear(dim.symbol) or Linear(dim.symbol)
            for spec in function.inputs
            for dim in spec.shape
            if isinstance(dim, SymbolicDim)
        }
        self.dtypes = [np.dtype(spec.dtype) for spec in function.inputs]
        self.is_static = [
            all(isinstance(dim, int) for dim in spec.shape) for spec in function.inputs
        ]
        positional, keywords = function.in_tree["items"]
        self._positional = positional["items"]
        self._keywords = dict(zip(keywords["keys"], keywords["items"], strict=True))
        self._known = {*function.argument_names, *self._keywords, *function.argument_defaults}
        self._known |= {f"argument {position}" for position in range(len(self._positional))}
        self._only_tensors = not self._keywords and all(
            tree["kind"] == "leaf" for tree in self._positional
        )

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        """The leaves of a call, in the order of the flat inputs."""
        if self._only_tensors and not kwargs and len(args) == len(self._positional):
            return args
        names = self.function.argument_names
        rest = dict(kwargs)
        expected = len(self._positional)
        for name in rest:
            if name not in self._known:
                raise self._miscounted(f"unexpected argument {name!r}{self._near(name)}", len(args))
        for position, value in enumerate(args[expected:], expected):
            name = names[position] if position < len(names) else ""
            if name not in self._keywords and name not in self.function.argument_defaults:
                raise self._miscounted("too many positional arguments", len(args))
            self._give(rest, name, value, len(args))
        leaves: list[Any] = []
        for position, tree in enumerate(self._positional):
            name = names[position] if position < len(names) else f"argument {position}"
            if position < len(args):
                self._give(rest, name, args[position], len(args))
            if name in rest:
                leaves += flatten(tree, rest.pop(name), name)
            elif tree["kind"] != "const":
                raise self._miscounted(f"argument {name!r} is missing", len(args))
        for name, tree in self._keywords.items():
            if name in rest:
                leaves += flatten(tree, rest.pop(name), name)
            elif tree["kind"] != "const":
                raise self._miscounted(f"argument {name!r} is missing", len(args))
        for name, value in rest.items():
            if name not in self.function.argument_defaults:
                raise self._miscounted(f"unexpected argument {name!r}", len(args))
            self._check_default(name, value)
        return leaves

    def _check_default(self, name: str, value: Any) -> None:
        """An argument that the example call left out may be given, if only as its default."""
        default = self.function.argument_defaults[name]
        if type(value) is not type(default) or value != default:
            got = repr(value) if isinstance(value, CONSTANTS) else f"a {type(value).__name__}"
            raise InputError(
                f"argument {name!r} is {got}, but the model was compiled without it, "
                f"so with its default {default!r}",
                code="constant-argument",
                where=f"{self.name}()",
                hint=f"compile again with {name!r} in the example call",
            )

    def _give(self, given: dict[str, Any], name: str, value: Any, count: int) -> None:
        if name in given:
            raise self._miscounted(f"argument {name!r} is given twice", count)
        given[name] = value

    def check_writable(self, leaves: Sequence[Any], arrays: Sequence[Any]) -> None:
        """Raise InputError unless what the model changes in place can be changed."""
        check_writable(self.name, leaves, arrays, self.updated, self.function.inputs)

    def check(self, arrays: Sequence[Any]) -> None:
        """Raise InputError unless types, shapes and values are those promised at compile time."""
        self._check_shapes(arrays)
        if self.function.input_ranges:
            check_values(self.name, arrays, self.function.input_ranges, self.function.inputs)

    def _check_shapes(self, arrays: Sequence[Any]) -> None:
        symbols: dict[str, tuple[int, str]] = {}
        for array, spec, dtype, static in zip(
            arrays, self.function.inputs, self.dtypes, self.is_static, strict=True
        ):
            if array.dtype != dtype:
                raise InputError(
                    f"{self._at(spec)} has dtype {array.dtype}, expected {dtype}",
                    code="input-dtype",
                    where=f"{self.name}()",
                    hint=f"convert it: {_short(spec.name)}.astype({dtype.name!r})",
                )
            shape = array.shape
            if static and shape == spec.shape:
                continue
            if len(shape) != len(spec.shape):
                raise self._bad_shape(spec, shape, f"has {len(shape)} dimensions")
            for axis, (size, dim) in enumerate(zip(shape, spec.shape, strict=True)):
                if isinstance(dim, int):
                    if size != dim:
                        raise self._bad_shape(spec, shape, f"has size {size} in dimension {axis}")
                    continue
                self._check_symbol(spec, shape, axis, size, dim, symbols)

    def _check_symbol(
        self,
        spec: TensorSpec,
        shape: tuple[int, ...],
        axis: int,
        size: int,
        dim: SymbolicDim,
        symbols: dict[str, tuple[int, str]],
    ) -> None:
        where = f"has {dim.symbol} = {size} in dimension {axis}"
        if size < dim.min or (dim.max is not None and size > dim.max):
            raise self._bad_shape(spec, shape, f"{where}, outside {dim.min}..{dim.max or 'any'}")
        if size % dim.multiple_of:
            raise self._bad_shape(spec, shape, f"{where}, not a multiple of {dim.multiple_of}")
        expression = self._linear[dim.symbol]
        number = expression.number(size)
        if number is None:
            raise self._bad_shape(spec, shape, f"{where}, which is no {dim.symbol}")
        before = symbols.setdefault(expression.name, (number, spec.name))
        if before[0] != number:
            raise self._bad_shape(
                spec, shape, f"{where}, but {before[1]} has {expression.name} = {before[0]}"
            )

    def _bad_shape(self, spec: TensorSpec, shape: tuple[int, ...], problem: str) -> InputError:
        return InputError(
            f"{self._at(spec)} {problem}: expected {format_shape(spec.shape)}, got {list(shape)}",
            code="input-shape",
            where=f"{self.name}()",
            hint="reshape or pad the input, or compile again with --dynamic for that dimension",
        )

    def _at(self, spec: TensorSpec) -> str:
        return f"argument {spec.name!r}"

    def _near(self, name: str) -> str:
        """The argument of the model, or of every call, that a misspelt one was meant to be."""
        near = difflib.get_close_matches(name, sorted({*self._known, "outputs"}), 1)
        return f", did you mean {near[0]!r}?" if near else ""

    def _miscounted(self, problem: str, count: int) -> InputError:
        names = [*self.function.argument_names[: len(self._positional)], *self._keywords]
        total = len(self._positional) + len(self._keywords)
        known = ", ".join(dict.fromkeys(names)) or f"{total} arguments"
        takes = f"it takes {total} argument{'s' * (total != 1)}"
        return InputError(
            f"{self.name}({known}): {problem}; {takes}, the call has {count} positional",
            code="input-count",
            where=f"{self.name}()",
            hint=f"call it with the arguments it was compiled for: {known}",
        )


def format_shape(shape: Dims) -> str:
    """[seq:1..512, 64]"""
    parts = []
    for dim in shape:
        if isinstance(dim, int):
            parts.append(str(dim))
        else:
            step = f"*{dim.multiple_of}" if dim.multiple_of > 1 else ""
            parts.append(f"{dim.symbol}:{dim.min}..{dim.max if dim.max is not None else ''}{step}")
    return f"[{', '.join(parts)}]"


def _short(name: str) -> str:
    return name if name.isidentifier() else "x"
