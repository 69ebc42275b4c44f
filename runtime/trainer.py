"""Running a training artifact.

    trainer = lemurc.load("train.lemur")
    metrics = trainer.step((x, y), lr=1e-3)     # {"loss": 0.693}
    trainer.save("run.safetensors")             # trainer.resume(...) continues bit for bit
    model.load_state_dict({k: torch.from_numpy(v) for k, v in trainer.state_dict().items()})

Parameters and optimizer state are the session's state: they stay on the devices, and a step
replaces them.
"""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from lemurc.errors import ArtifactError, InputError, UsageError
from lemurc.manifest import Training
from lemurc.runtime.boundary import read_tensor
from lemurc.runtime.fit import FitOptions, FitResult, Loader, Position, fit
from lemurc.runtime.session import Session
from lemurc.runtime.tensor_file import read_tensors, write_tensors

_IDENTITY = "lemurc.identity"
_POSITION = "lemurc.position"


class Trainer(Session):
    """A session of a training artifact. It begins with the parameters that the model had when it
    was compiled; `reset()` goes back there."""

    position = Position()
    """Where the loader of `fit` stands: passes begun before this one, batches taken of it."""

    @property
    def training(self) -> Training:
        assert self.manifest.training is not None
        return self.manifest.training

    @property
    def steps(self) -> int:
        """Steps made since the model was compiled."""
        with self._serial:
            assert self._state is not None
            return int(self._state.residents[self.training.count].array())

    def step(self, batch: Any, lr: float | None = None) -> dict[str, float]:
        """One step on `batch`; its metrics: `loss`, before the update, and, where gradients are
        clipped, `gradient_norm`, before that.

        `batch` has the structure and sizes of the one compiled for. With accumulation it is a
        list of as many batches, and the loss their mean. `lr` may be left out where the
        optimizer was given one.
        """
        rate = self._rate(lr)
        count = self.training.accumulate
        if count == 1:
            return _numbers(self.call("step", (batch, rate), {}, None))
        if not isinstance(batch, (list, tuple)) or len(batch) != count:
            given = len(batch) if isinstance(batch, (list, tuple)) else type(batch).__name__
            raise InputError(
                f"a step takes a list of {count} batches, got {given}",
                code="input-count",
                where="step()",
                hint=f"it was compiled to accumulate the gradients of {count}",
            )
        losses = [_numbers(self.call("accumulate", (part,), {}, None))["loss"] for part in batch]
        metrics = _numbers(self.call("update", (rate,), {}, None))
        return {"loss": float(np.mean(losses)), **metrics}

    def evaluate(self, batch: Any) -> dict[str, Any]:
        """`loss`, and `output`: what the model in the mode `eval` returns for a batch."""
        result: dict[str, Any] = self.call("evaluate", (batch,), {}, None)
        return {**result, "loss": float(result["loss"])}

    def fit(self, loader: Loader, steps: int, **options: Any) -> FitResult:
        """Train until `steps` steps have been made in all, those before this call included.

        `loader` is an iterable of batches, gone through as often as that takes, or a function
        of the number of the pass that returns one. `options`, the fields of `FitOptions`:

        lr                a rate, or a function of the steps made before
        validation        batches to take the mean loss of, each `evaluate_every` steps
        patience          training stops when that has not fallen so many times in a row
        checkpoint        a file to save to at the end, and each `checkpoint_every` steps
        on_step           called with the steps made and the metrics of the last
        progress          whether to show a bar; None: where stderr is a terminal

        ^C ends the step in progress, saves the checkpoint and raises KeyboardInterrupt; a second
        one ends at once. TrainingError when a loss is NaN or infinite: nothing is saved then.
        """
        try:
            chosen = FitOptions(**options)
        except TypeError as error:
            raise UsageError(
                f"fit() has no such option: {error}",
                code="unknown-option",
                hint=f"its options: {', '.join(FitOptions.__dataclass_fields__)}",
            ) from None
        return fit(self, loader, steps, chosen)

    # State

    def reset(self, seed: int | None = None) -> None:
        super().reset(seed)
        self.position = Position()

    def state_dict(self) -> dict[str, np.ndarray]:
        """Copies of the model's parameters and buffers, under PyTorch's names."""
        with self._serial:
            assert self._state is not None
            found = {}
            for name, reference in self.training.tensors.items():
                kind, _, own = reference.partition(":")
                if kind == "state":
                    found[name] = self._state.residents[own].array().copy()
                else:
                    found[name] = self.artifact.weight(own).copy()
            return found

    def load_state_dict(self, values: Mapping[str, Any]) -> None:
        """Parameters and buffers from `state_dict()`, of here or of the PyTorch model.

        All or none; the optimizer's state stays. What training leaves alone is part of the
        code, and must be as it was compiled.
        """
        known = self.training.tensors
        if set(values) != set(known):
            missing, extra = sorted(set(known) - set(values)), sorted(set(values) - set(known))
            raise InputError(
                f"other tensors than the model's: missing {missing}, unexpected {extra}",
                code="state-mismatch",
                hint="pass the state_dict() of the model that was compiled",
            )
        state = self.state()
        given: dict[str, str] = {}
        for name, reference in known.items():
            kind, _, own = reference.partition(":")
            array = _array(values[name])
            if own in given and not np.array_equal(array, _array(values[given[own]])):
                raise _changed(f"{name!r} and {given[own]!r} are one tensor, but differ")
            given.setdefault(own, name)
            if kind == "state":
                state[own] = array
            elif not np.array_equal(array, self.artifact.weight(own)):
                raise _changed(f"{name!r} is frozen, and not as it was compiled")
        self.load_state(state)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint, in the format safetensors: all that training changes.

        The file is complete and on the disk when this returns; until then an older one under
        its name stays.
        """
        metadata = {_IDENTITY: self.training.identity, _POSITION: self.position.text()}
        with self._serial:
            assert self._state is not None
            residents = self._state.residents
            tensors = {name: resident.array() for name, resident in residents.items()}
            write_tensors(path, tensors, metadata)

    def resume(self, path: str | os.PathLike[str]) -> None:
        """Continue from the checkpoint at `path`, bit for bit as if it had not ended there.

        ArtifactError for a file that is damaged, or a checkpoint of another model or optimizer.
        """
        tensors, metadata = read_tensors(path)
        if metadata.get(_IDENTITY) != self.training.identity:
            raise ArtifactError(
                f"{path} is a checkpoint of another model or optimizer"
                if _IDENTITY in metadata
                else f"{path} is no checkpoint of lemurc's",
                code="checkpoint-mismatch",
                where=str(path),
                hint="load the artifact it was saved by; load_state_dict() takes the parameters "
                "alone",
            )
        self.load_state(tensors)
        self.position = Position.parsed(metadata.get(_POSITION, ""))

    def _rate(self, lr: float | None) -> np.ndarray:
        rate = self.training.lr if lr is None else lr
        if rate is None:
            raise UsageError(
                "this step needs a learning rate",
                code="no-learning-rate",
                hint="call step(batch, lr=...), or compile with an optimizer such as adamw:lr=3e-4",
            )
        return np.asarray(rate, np.float32)


def _numbers(result: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in result.items()}


def _array(value: Any) -> np.ndarray:
    return value if isinstance(value, np.ndarray) else read_tensor(value)


def _changed(what: str) -> InputError:
    return InputError(
        what,
        code="state-mismatch",
        hint="compile the model again with the tensors it is to have",
    )
