"""What cases are made of, and the bench that runs them on one device."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import lemurc
from lemurc.manifest import Manifest, Plan
from lemurc.runtime.artifact import Artifact, write
from lemurc.runtime.boundary import DeviceTensor, read_tensor
from lemurc.runtime.session import Session
from lemurc.verification import Comparison, compare, tolerance_of

Array = np.ndarray[Any, Any]


class Failed(Exception):
    """The device does not do what a case asks; the message says what it did."""


@dataclass(frozen=True)
class Expression:
    """`function` must give eager's results for the arguments of every call.

    The first call is the example that is compiled; `dynamic` is `dynamic_shapes` of
    torch.export, where sizes of later calls differ. `bits` asks for the same bits, signs of
    zeros too, of results that are floating point; NaN is NaN whatever its bits.
    """

    name: str
    function: Callable[..., Any]
    calls: tuple[tuple[torch.Tensor, ...], ...]
    dynamic: Any = None
    bits: bool = False
    needs: tuple[str, ...] = ()
    """What a target may lack, of `lemurc.targets.base.LACKS`."""


@dataclass(frozen=True)
class Scenario:
    """`run` raises Failed, or a LemurcError, when the device does not do what it must."""

    name: str
    run: Callable[["Bench"], None]
    needs: tuple[str, ...] = ()


class Function(torch.nn.Module):
    """A function of tensors as a model."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


@dataclass
class Bench:
    """Compiles for one target, `targets` as in `--targets`, and runs on one `device`."""

    targets: str
    device: str
    folder: Path
    _made: int = field(default=0, init=False)

    @property
    def kind(self) -> str:
        return self.device.partition(":")[0]

    def compile(self, model: Any, args: tuple[Any, ...] = (), **options: Any) -> Path:
        """An artifact for the target alone, unless `targets` says otherwise; unverified, since
        comparing with eager is what the cases do."""
        chosen = {"targets": self.targets, "verify": False, "golden": "none", **options}
        return lemurc.compile(model, args, output=self.path(), **chosen).path

    def load(self, path: Path, **options: Any) -> Session:
        return lemurc.load(path, **{"devices": [self.device], "strict": True, **options})

    def path(self) -> Path:
        self._made += 1
        return self.folder / f"{self._made}.lemur"

    def compiled(self, model: torch.nn.Module, args: tuple[Any, ...], **options: Any) -> Session:
        """`model` on the device."""
        return self.load(self.compile(model.eval(), args, **options))

    def with_plan(self, artifact: Artifact, plan: Plan) -> Path:
        """The same artifact with one plan: any placement that its code allows."""
        manifest: Manifest = dataclasses.replace(artifact.manifest, plans=(plan,))
        path = self.path()
        entries = {
            name: bytes(artifact.entry(name))
            for name in artifact.manifest.files
            if name.startswith("modules/")
        }
        weights = {name: artifact.weight(name) for name in artifact.manifest.weights}
        write(path, manifest, entries, weights)
        return path


def expect(got: Any, want: Any, what: str = "the result", *, bits: bool = False) -> None:
    """Failed unless every tensor of `got` is that of `want`, within lemurc's tolerances."""
    results, wanted = flat(got), flat(want)
    if len(results) != len(wanted):
        raise Failed(f"{what}: {len(results)} tensors instead of {len(wanted)}")
    for number, (result, reference) in enumerate(zip(results, wanted, strict=True)):
        name = f"{what}, tensor {number}" if len(wanted) > 1 else what
        row = compare(name, result, reference, tolerance_of(str(reference.dtype)))
        if not row.ok:
            raise Failed(f"{name}: {_said(row)}; got {_few(result)}, eager gives {_few(reference)}")
        if bits and not _same_bits(result, reference):
            raise Failed(f"{name}: other bits; got {_few(result)}, eager gives {_few(reference)}")


def demand(holds: object, otherwise: str) -> None:
    if not holds:
        raise Failed(otherwise)


def refused(call: Callable[[], Any], kind: type[Exception], what: str) -> Exception:
    """The error that `call` raises; Failed when there is none, or one of another class."""
    try:
        call()
    except kind as error:
        return error
    except Exception as error:
        raise Failed(f"{what}: {type(error).__name__} instead of {kind.__name__}") from error
    raise Failed(f"{what} is accepted")


def eager(function: Callable[..., Any], args: Sequence[torch.Tensor]) -> Any:
    with torch.no_grad():
        return function(*[argument.clone() for argument in args])


def flat(value: Any) -> list[Array]:
    """The tensors of any nesting of tuples, lists and dicts, in host memory."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [array for item in value for array in flat(item)]
    if isinstance(value, torch.Tensor):
        return [read_tensor(value)]
    return [value.numpy() if isinstance(value, DeviceTensor) else np.asarray(value)]


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normal numbers, the same in every run."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype)


def whole(*shape: int, low: int, high: int, seed: int = 0, dtype: torch.dtype) -> torch.Tensor:
    """Integers of `low` to `high` - 1."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, high, shape, generator=generator).to(dtype)


def _same_bits(got: Array, want: Array) -> bool:
    if want.dtype.kind in "biu":
        return bool(np.array_equal(got, want))
    nan = np.isnan(want)
    width = np.dtype(f"u{want.dtype.itemsize}")
    return bool(np.array_equal(got.view(width)[~nan], want.view(width)[~nan]))


def _said(row: Comparison) -> str:
    return row.detail or f"error {row.error:.2g} of the largest value, {row.allowed:.2g} allowed"


def _few(array: Array, most: int = 6) -> str:
    shown = ", ".join(f"{item:.6g}" for item in array.reshape(-1)[:most].astype(np.float64))
    return f"[{shown}{', ...' if array.size > most else ''}]"
