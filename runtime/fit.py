"""The loop of training: batches, rates, evaluations, checkpoints, and how it ends."""

import contextlib
import json
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from types import FrameType
from typing import TYPE_CHECKING, Any

from lemurc.errors import TrainingError, UsageError

if TYPE_CHECKING:
    from lemurc.runtime.trainer import Trainer

Loader = Iterable[Any] | Callable[[int], Iterable[Any]]
Rate = float | Callable[[int], float]
OnStep = Callable[[int, dict[str, float]], None]
_Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Position:
    """Where a loader stands: passes over it that ended, and batches taken in the one begun."""

    passes: int = 0
    batches: int = 0

    def text(self) -> str:
        return json.dumps([self.passes, self.batches])

    @staticmethod
    def parsed(text: str) -> "Position":
        return Position(*json.loads(text)) if text else Position()


@dataclass(frozen=True)
class FitResult:
    """`stopped` is "done", "early", or "no more batches".

    `losses` are those of the steps of this call, `evaluations` pairs of the steps made and the
    mean loss over the validation batches.
    """

    steps: int
    stopped: str
    losses: list[float] = field(default_factory=list)
    evaluations: list[tuple[int, float]] = field(default_factory=list)


@dataclass(frozen=True)
class FitOptions:
    """The arguments of Trainer.fit by their names."""

    lr: Rate | None = None
    validation: Iterable[Any] | None = None
    evaluate_every: int | None = None
    patience: int | None = None
    checkpoint: _Path | None = None
    checkpoint_every: int | None = None
    on_step: OnStep | None = None
    progress: bool | None = None

    def check(self) -> None:
        for name in ("evaluate_every", "patience", "checkpoint_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise _wrong(f"{name} is a number above 0, not {value}")
        if (self.validation is None) != (self.evaluate_every is None):
            raise _wrong("validation and evaluate_every go together")
        if self.patience is not None and self.validation is None:
            raise _wrong("patience needs validation batches")
        if self.checkpoint_every is not None and self.checkpoint is None:
            raise _wrong("checkpoint_every needs a checkpoint to write")

    def rate(self, done: int) -> float | None:
        return self.lr(done) if callable(self.lr) else self.lr


def fit(trainer: "Trainer", loader: Loader, steps: int, options: FitOptions) -> FitResult:
    """See Trainer.fit."""
    options.check()
    losses: list[float] = []
    evaluations: list[tuple[int, float]] = []
    done = trainer.steps
    saved: int | None = None
    stopped = "done"
    batches = _batches(trainer, loader)
    size = trainer.training.accumulate
    with _interruptible() as interrupted, _bar(options.progress, done, steps) as show:
        while done < steps and not interrupted():
            taken = list(islice(batches, size))
            if len(taken) < size:
                stopped = "no more batches"
                break
            metrics = trainer.step(taken[0] if size == 1 else taken, options.rate(done))
            done += 1
            if not math.isfinite(metrics["loss"]):
                raise _diverged(done, metrics["loss"], saved, options.checkpoint)
            losses.append(metrics["loss"])
            if options.on_step is not None:
                options.on_step(done, metrics)
            show(done, metrics)
            if _is_due(options.checkpoint_every, done):
                saved = _save(trainer, options.checkpoint, done)
            if _is_due(options.evaluate_every, done):
                assert options.validation is not None
                evaluations.append((done, _mean_loss(trainer, options.validation)))
                if options.patience is not None and _has_stalled(evaluations, options.patience):
                    stopped = "early"
                    break
        if saved != done:
            _save(trainer, options.checkpoint, done)
        if interrupted():
            raise KeyboardInterrupt
    return FitResult(done, stopped, losses, evaluations)


def _wrong(message: str) -> UsageError:
    return UsageError(message, code="bad-option", where="fit()", hint="see help(Trainer.fit)")


def _is_due(every: int | None, done: int) -> bool:
    return every is not None and done % every == 0


def _save(trainer: "Trainer", path: _Path | None, done: int) -> int:
    if path is not None:
        trainer.save(path)
    return done


def _batches(trainer: "Trainer", loader: Loader) -> Iterator[Any]:
    """Batches from where the trainer's position says, pass after pass.

    They end with a pass that is empty, and with an iterator, which goes one way and stands
    where it stands.
    """
    one_way = isinstance(loader, Iterator)
    skipped = 0 if one_way else trainer.position.batches
    number = trainer.position.passes
    while True:
        count = 0
        items = loader if isinstance(loader, Iterable) else loader(number)
        for count, batch in enumerate(items, 1):
            if count > skipped:
                trainer.position = Position(number, count)
                yield batch
        if one_way or not count:
            return
        skipped = 0
        number += 1
        trainer.position = Position(number)


def _mean_loss(trainer: "Trainer", batches: Iterable[Any]) -> float:
    losses = [trainer.evaluate(batch)["loss"] for batch in batches]
    if not losses:
        raise _wrong("there are no validation batches")
    return math.fsum(losses) / len(losses)


def _has_stalled(evaluations: list[tuple[int, float]], patience: int) -> bool:
    losses = [loss for _, loss in evaluations]
    return len(losses) > patience and min(losses[-patience:]) >= min(losses[:-patience])


def _diverged(step: int, loss: float, saved: int | None, path: _Path | None) -> TrainingError:
    last = (
        f"{os.fspath(path)} has the state after step {saved}"
        if path is not None and saved is not None
        else "with checkpoint_every there would be a state to return to"
    )
    return TrainingError(
        f"the loss of step {step} is {loss}",
        code="loss-not-finite",
        where=f"step {step}",
        hint=f"lower the rate, clip the gradients, or look at that batch; {last}",
    )


@contextlib.contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Whether ^C was pressed: the first is taken note of, the second is raised as ever.

    Signals are heard by the main thread alone; elsewhere, and where somebody else handles them,
    nothing changes.
    """
    pressed = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if not main or before is signal.SIG_IGN or not callable(before):
        yield pressed.is_set
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            before(number, frame)
        pressed.set()

    signal.signal(signal.SIGINT, handle)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _bar(
    wanted: bool | None, done: int, steps: int
) -> Iterator[Callable[[int, dict[str, float]], None]]:
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield lambda done, metrics: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("training"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[metrics]}", style="dim"),
        console=Console(stderr=True),
    )
    task = bar.add_task("training", total=steps, completed=done, metrics="")

    def show(done: int, metrics: dict[str, float]) -> None:
        text = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        bar.update(task, completed=done, metrics=text)

    with bar:
        yield show
