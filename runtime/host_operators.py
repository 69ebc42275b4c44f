"""Stages that PyTorch runs: operators that nothing compiles, in eager mode on the CPU.

PyTorch is imported when an artifact with such a stage is loaded, and not otherwise. Operators
of a user's own library exist once their module is imported, which only the user asks for.
"""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from lemurc.errors import ArtifactError, DeviceError, UsageError
from lemurc.manifest import HostCall, Manifest, Stage
from lemurc.runtime.artifact import Artifact
from lemurc.runtime.boundary import read_tensor, to_torch


class HostExecutor:
    """One stage, ready to run."""

    def __init__(self, artifact: Artifact, name: str, stage: Stage) -> None:
        assert stage.host is not None
        self.name = name
        self.call = stage.host
        _check(artifact, name, stage)
        self._torch = _import_torch(artifact.manifest)
        self._operator = _find(self._torch, self.call.op, artifact.manifest)
        self._keyword_only = [a.name for a in self._operator._schema.arguments if a.kwarg_only]
        self._weights = {
            at: self._tensor(artifact.weight(reference.removeprefix("param:")))
            for at, reference in enumerate(stage.inputs)
            if reference.startswith("param:")
        }

    @property
    def arch(self) -> str:
        return f"PyTorch {self._torch.__version__.partition('+')[0]}"

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """`arrays` are the inputs but for weights; results share no memory with anything."""
        rest = iter(arrays)
        tensors = [
            self._weights[at] if at in self._weights else self._tensor(next(rest))
            for at in range(len(self.call.inputs))
        ]
        given = [self._argument(item, tensors) for item in self.call.arguments]
        count = len(given) - len(self._keyword_only)
        named = dict(zip(self._keyword_only, given[count:], strict=True))
        try:
            with self._torch.no_grad():
                made = self._operator(*given[:count], **named)
        except Exception as error:
            raise DeviceError(
                f"PyTorch cannot run {self.call.op}: {type(error).__name__}: {error}",
                code="host-op-failed",
                where=f"stage {self.name}",
                hint="the operator refuses these values in eager mode too, or its code here is "
                "not the one the model was compiled with",
            ) from error
        results = made if isinstance(made, (tuple, list)) else (made,)
        return list(self._results(results))

    def _results(self, made: Sequence[Any]) -> Iterator[np.ndarray]:
        """Code behind this stage was compiled for these types and reads by them."""
        for want in self.call.results:
            got = made[want.position] if want.position < len(made) else None
            if not isinstance(got, self._torch.Tensor):
                raise self._other_result(want.position, type(got).__name__)
            array = read_tensor(got)
            sizes = zip(array.shape, want.shape, strict=False)
            fits = array.ndim == len(want.shape) and all(n in (m, -1) or m == -1 for n, m in sizes)
            if array.dtype != np.dtype(want.dtype) or not fits:
                raise self._other_result(want.position, f"{array.dtype}{list(array.shape)}")
            yield array

    def _other_result(self, position: int, got: str) -> DeviceError:
        want = next(result for result in self.call.results if result.position == position)
        sizes = ", ".join("?" if size < 0 else str(size) for size in want.shape)
        return DeviceError(
            f"result {position} of {self.call.op} is {got}, but its meta function said "
            f"{want.dtype}[{sizes}] when the model was compiled",
            code="host-op-result",
            where=f"stage {self.name}",
            hint="mend the operator or its meta (fake) function, and compile again",
        )

    def _argument(self, item: Any, tensors: Sequence[Any]) -> Any:
        if isinstance(item, list):
            return [self._argument(inner, tensors) for inner in item]
        if not isinstance(item, dict):
            return item
        [(kind, value)] = item.items()
        if kind == "tensor":
            return tensors[value]
        if kind == "number":
            return tensors[value].item()
        return float(value) if kind == "float" else self._torch.device(value)

    def _tensor(self, array: np.ndarray) -> Any:
        with warnings.catch_warnings():
            # weights are mapped read-only, and an operator that writes is not compiled
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            return to_torch(array, self._torch.device("cpu"))


def _import_torch(manifest: Manifest) -> Any:
    operators = sorted({stage.host.op for stage in manifest.stages.values() if stage.host})
    try:
        import torch
    except ImportError as error:
        version = manifest.producer.get("torch", "")
        raise DeviceError(
            f"this artifact leaves {', '.join(operators)} to PyTorch, which is not installed",
            code="host-needs-torch",
            hint=f"pip install torch{f'=={version}' if version else ''}, or compile a model "
            "without these operators",
        ) from error
    return torch


def _find(torch: Any, name: str, manifest: Manifest) -> Any:
    namespace, _, rest = name.partition("::")
    operator, _, overload = rest.partition(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), operator), overload or "default")
    except AttributeError as error:
        known = [f"--import {module}" for module in manifest.imports]
        flags = " ".join(known) or "--import MODULE, the one that defines it"
        names = ", ".join(map(repr, manifest.imports)) or "'MODULE'"
        raise UsageError(
            f"this artifact leaves {name} to PyTorch, where nothing has defined that operator",
            code="host-op-unknown",
            hint=f"lemurc run {flags}; in Python lemurc.load(..., imports=[{names}]); an artifact "
            "imports nothing by itself",
        ) from error


def _check(artifact: Artifact, name: str, stage: Stage) -> None:
    """An entry that does not hang together would call the operator with something else."""
    call = stage.host
    assert call is not None
    try:
        for dtype in (*call.inputs, *(result.dtype for result in call.results)):
            np.dtype(dtype)
        sound = len(call.inputs) == len(stage.inputs) and len(call.results) == len(stage.outputs)
        sound = sound and all(_sound(item, call) for item in call.arguments)
        sound = sound and "::" in call.op and all(r.position >= 0 for r in call.results)
        sound = sound and not (stage.modules or stage.written)
        sound = sound and all(
            not reference.startswith("param:")
            or reference.removeprefix("param:") in artifact.manifest.weights
            for reference in stage.inputs
        )
    except TypeError:
        sound = False
    if not sound:
        raise ArtifactError(
            f"{artifact.path} is damaged: what stage {name} leaves to PyTorch is not described",
            code="corrupt-artifact",
            where=str(artifact.path),
            hint="copy it again from where it was made, or compile the model again",
        )


def _sound(item: Any, call: HostCall) -> bool:
    if isinstance(item, list):
        return all(_sound(inner, call) for inner in item)
    if not isinstance(item, dict):
        return item is None or isinstance(item, (bool, int, float, str))
    if len(item) != 1:
        return False
    [(kind, value)] = item.items()
    if kind in ("tensor", "number"):
        return type(value) is int and 0 <= value < len(call.inputs)
    if kind == "float":
        return value in ("inf", "-inf", "nan")
    return kind == "device" and isinstance(value, str)
