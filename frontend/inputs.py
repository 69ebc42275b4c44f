"""Example inputs and dynamic sizes as the command line spells them.

--input 1x3x224x224xf32            random values
--input ids=1x16xi64               for the keyword argument `ids`
--input @image.npy                 an array from a file
--dynamic 0.1=seq:1..512           dimension 1 of argument 0 is `seq`, 1 to 512
--dynamic 0.0=n,0.1=seq:1..512     two of them
--dynamic ids.1=seq                a dimension of a keyword argument
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lemurc.errors import UsageError

_DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "ui8": torch.uint8,
    "i1": torch.bool,
    "bool": torch.bool,
}
_SPEC = re.compile(r"(?:(?P<sizes>\d+(?:x\d+)*)x)?(?P<dtype>[a-z]+\d*)")
_NAMED = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<rest>.+)", re.DOTALL)
_DYNAMIC = re.compile(
    r"(?P<argument>\w+)\.(?P<dimension>\d+)=(?P<symbol>[A-Za-z_]\w*)"
    r"(?::(?P<min>\d+)\.\.(?P<max>\d+)?)?"
)
_SMALL = 8
"""Random integers stay below: they index the smallest of embedding tables safely."""


@dataclass(frozen=True)
class DynamicSize:
    """`argument` is a position or a name; None as `max` means without bound."""

    argument: int | str
    dimension: int
    symbol: str
    min: int | None = None
    max: int | None = None


def parse_inputs(texts: list[str]) -> tuple[tuple[torch.Tensor, ...], dict[str, torch.Tensor]]:
    """Positional and keyword arguments; the same texts give the same values."""
    args: list[torch.Tensor] = []
    kwargs: dict[str, torch.Tensor] = {}
    random = torch.Generator().manual_seed(0)
    for text in texts:
        named = _NAMED.fullmatch(text)
        value = _tensor(named["rest"] if named else text, text, random)
        if named:
            kwargs[named["name"]] = value
        else:
            args.append(value)
    return tuple(args), kwargs


def _tensor(spec: str, text: str, random: torch.Generator) -> torch.Tensor:
    if spec.startswith("@"):
        return _from_file(spec[1:], text)
    match = _SPEC.fullmatch(spec)
    dtype = _DTYPES.get(match["dtype"]) if match else None
    if match is None or dtype is None:
        raise UsageError(
            f"--input {text} is not SHAPExTYPE or @file.npy",
            code="bad-input-spec",
            hint=f"for example 1x3x224x224xf32; types: {', '.join(_DTYPES)}",
        )
    sizes = [int(size) for size in match["sizes"].split("x")] if match["sizes"] else []
    if dtype.is_floating_point:
        return torch.randn(sizes, generator=random).to(dtype)
    return torch.randint(0, 2 if dtype is torch.bool else _SMALL, sizes, generator=random).to(dtype)


def _from_file(name: str, text: str) -> torch.Tensor:
    import numpy as np

    path = Path(name)
    if not path.is_file():
        raise UsageError(
            f"--input {text}: there is no file {name!r}",
            code="input-not-found",
            hint=f"paths are relative to {Path.cwd()}",
        )
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, OSError) as error:
        raise UsageError(
            f"--input {text}: {name!r} is no .npy file of numbers ({error})",
            code="bad-input-file",
            hint="write it with numpy.save",
        ) from error
    return torch.from_numpy(np.array(array, order="C"))


def parse_dynamic(texts: list[str]) -> list[DynamicSize]:
    """Each text holds one specification or several between commas."""
    sizes = []
    for text in (part.strip() for joined in texts for part in joined.split(",")):
        match = _DYNAMIC.fullmatch(text)
        if match is None:
            raise UsageError(
                f"--dynamic {text} is not ARGUMENT.DIMENSION=NAME:MIN..MAX",
                code="bad-dynamic-spec",
                hint="for example 0.1=seq:1..512: dimension 1 of argument 0, or of an argument by "
                "name, ids.1=seq; several go between commas",
            )
        argument = match["argument"]
        low, high = (int(match[key]) if match[key] else None for key in ("min", "max"))
        if low is not None and high is not None and low > high:
            raise UsageError(
                f"--dynamic {text}: {low} is more than {high}",
                code="bad-dynamic-spec",
                hint=f"write the smaller size first: {high}..{low}",
            )
        position = int(argument) if argument.isdigit() else argument
        sizes.append(DynamicSize(position, int(match["dimension"]), match["symbol"], low, high))
    return sizes


def dynamic_shapes(
    sizes: list[DynamicSize], args: tuple[Any, ...], kwargs: dict[str, Any], names: list[str]
) -> dict[str, Any] | tuple[Any, ...] | None:
    """What torch.export takes; `names` are the parameters of the model's forward."""
    if not sizes:
        return None
    symbols: dict[str, Any] = {}
    marked: dict[int | str, dict[int, Any]] = {}
    for size in sizes:
        place: int | str = size.argument
        if isinstance(place, str) and place not in kwargs and place in names[: len(args)]:
            place = names.index(place)
        known = place in kwargs if isinstance(place, str) else place < len(args)
        value = (kwargs[place] if isinstance(place, str) else args[place]) if known else None
        if not isinstance(value, torch.Tensor) or size.dimension >= value.ndim:
            raise UsageError(
                f"--dynamic {size.argument}.{size.dimension}: the example call has no such "
                "argument and dimension",
                code="bad-dynamic-spec",
                hint=f"{len(args)} positional arguments; keywords: {', '.join(kwargs) or 'none'}",
            )
        if size.symbol not in symbols:
            bounds = {"min": size.min, "max": size.max}
            given = {key: bound for key, bound in bounds.items() if bound is not None}
            symbols[size.symbol] = torch.export.Dim(size.symbol, **given)
        marked.setdefault(place, {})[size.dimension] = symbols[size.symbol]
    positional = tuple(marked.get(index) for index in range(len(args)))
    if not kwargs:
        return positional
    by_name = dict(zip(names, positional, strict=False))
    return by_name | {name: marked.get(name) for name in kwargs}
