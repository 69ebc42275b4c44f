"""The trainer: its state, its checkpoints, its loop. No PyTorch in what it is given."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import lemurc
from lemurc.errors import ArtifactError, InputError, LemurcError, TrainingError, UsageError
from lemurc.runtime.fit import Position
from lemurc.runtime.trainer import Trainer


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Tanh(), nn.Linear(16, 3)
    )


def batch(number: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(number)
    x = generator.normal(size=(8, 6)).astype(np.float32)
    return x, (x[:, :3] + 0.1 * generator.normal(size=(8, 3))).argmax(1)


def compiled(folder: Path, spec: str = "adam:lr=1e-2", module: Any = None) -> Path:
    return lemurc.compile_training(
        module or model(),
        F.cross_entropy,
        spec,
        batch(0),
        output=folder / "model.lemur",
        targets="cpu:host",
    ).path


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("trainer"))


@pytest.fixture
def trainer(artifact: Path) -> Any:
    with lemurc.load(artifact) as loaded:
        assert isinstance(loaded, Trainer)
        yield loaded


def losses(trainer: Trainer, start: int, count: int) -> list[float]:
    return [trainer.step(batch(number))["loss"] for number in range(start, start + count)]


def equal(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(a[name].tobytes() == b[name].tobytes() for name in a)


def test_the_state_dict_is_the_models(trainer: Trainer) -> None:
    module = model()
    start = trainer.state_dict()
    assert equal(start, {name: t.numpy() for name, t in module.state_dict().items()})
    losses(trainer, 0, 5)
    trained = trainer.state_dict()
    module.load_state_dict({name: torch.from_numpy(value) for name, value in trained.items()})
    x, y = batch(9)
    want = module.eval()(torch.from_numpy(x)).detach()
    result = trainer.evaluate((x, y))
    np.testing.assert_allclose(result["output"], want.numpy(), rtol=1e-4, atol=1e-5)
    assert trained["1.num_batches_tracked"] == trainer.steps == 5
    trainer.load_state_dict(model().state_dict())
    assert equal(trainer.state_dict(), start)
    trainer.load_state_dict(trained)
    assert trainer.evaluate((x, y))["loss"] == result["loss"]


def test_a_foreign_state_dict_is_refused_whole(trainer: Trainer) -> None:
    start = trainer.state_dict()
    for change in ({"more": np.zeros(1)}, {"0.bias": np.zeros(3, np.float32)}):
        with pytest.raises(InputError) as raised:
            trainer.load_state_dict({**start, "0.weight": 0 * start["0.weight"], **change})
        assert raised.value.code == "state-mismatch"
        assert equal(trainer.state_dict(), start)


@pytest.mark.parametrize("at", [1, 4, 7])
def test_resuming_continues_bit_for_bit(artifact: Path, tmp_path: Path, at: int) -> None:
    path = tmp_path / "run.safetensors"
    with lemurc.load(artifact) as whole:
        whole.reset(seed=3)
        losses(whole, 0, at)
        whole.save(path)
        want, state = losses(whole, at, 10 - at), whole.state()
    with lemurc.load(artifact) as rest:
        rest.resume(path)
        assert rest.steps == at
        assert losses(rest, at, 10 - at) == want
        assert equal(rest.state(), state)


def test_pytorch_reads_a_checkpoint(trainer: Trainer, tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    losses(trainer, 0, 2)
    trainer.save(tmp_path / "run.safetensors")
    assert equal(load_file(tmp_path / "run.safetensors"), trainer.state())


def test_a_checkpoint_of_another_model_is_refused(
    artifact: Path, trainer: Trainer, tmp_path: Path
) -> None:
    other = model()
    other[3] = nn.ReLU()
    for name, spec, module in (("sgd", "sgd", None), ("relu", "adam:lr=1e-2", other)):
        folder = tmp_path / name
        folder.mkdir()
        with lemurc.load(compiled(folder, spec, module)) as foreign:
            foreign.save(folder / "other.safetensors")
        before = trainer.state()
        with pytest.raises(ArtifactError, match="of another model or optimizer") as raised:
            trainer.resume(folder / "other.safetensors")
        assert raised.value.code == "checkpoint-mismatch"
        assert equal(trainer.state(), before)


def test_damaged_checkpoints_are_refused(trainer: Trainer, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    trainer.save(path)
    data = path.read_bytes()
    for wrong in (b"", data[:5], data[:100], data[:-1], data + b"x", b"\xff" * 400):
        path.write_bytes(wrong)
        with pytest.raises(ArtifactError) as raised:
            trainer.resume(path)
        assert raised.value.code == "checkpoint-damaged"
    with pytest.raises(ArtifactError) as raised:
        trainer.resume(tmp_path / "none")
    assert raised.value.code == "checkpoint-unreadable"


def test_a_full_disk_leaves_the_checkpoint_before(
    trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.safetensors"
    trainer.save(path)
    before = path.read_bytes()
    losses(trainer, 0, 1)

    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="No space left on device") as raised:
        trainer.save(path)
    assert raised.value.code == "unwritable-output"
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_fit_trains_as_steps_do(trainer: Trainer, artifact: Path) -> None:
    seen: list[tuple[int, float]] = []
    rates = [1e-2 / (1 + step) for step in range(7)]
    trainer.reset(seed=1)
    result = trainer.fit(
        [batch(number) for number in range(3)],
        7,
        lr=lambda done: rates[done],
        on_step=lambda done, metrics: seen.append((done, metrics["loss"])),
    )
    with lemurc.load(artifact) as other:
        other.reset(seed=1)
        want = [other.step(batch(n % 3), lr=rate)["loss"] for n, rate in enumerate(rates)]
    assert result.losses == want
    assert seen == list(enumerate(want, 1))
    assert (result.steps, result.stopped, trainer.steps) == (7, "done", 7)
    assert trainer.position == Position(passes=2, batches=1)


@pytest.mark.parametrize("at", [2, 3, 5])
def test_fit_resumes_where_the_loader_stood(artifact: Path, tmp_path: Path, at: int) -> None:
    path = tmp_path / "run.safetensors"

    def loader(number: int) -> Any:
        order = np.random.default_rng(number).permutation(3)
        return [batch(10 * number + place) for place in order]

    with lemurc.load(artifact) as whole:
        want = whole.fit(loader, 8).losses
    with lemurc.load(artifact) as first:
        assert first.fit(loader, at, checkpoint=path).losses == want[:at]
    with lemurc.load(artifact) as rest:
        rest.resume(path)
        assert rest.fit(loader, 8).losses == want[at:]


def test_fit_ends_with_an_iterator(trainer: Trainer) -> None:
    result = trainer.fit((batch(number) for number in range(4)), 10)
    assert (result.steps, result.stopped) == (4, "no more batches")
    assert trainer.fit([], 10).stopped == "no more batches"


def test_fit_stops_early(trainer: Trainer) -> None:
    result = trainer.fit(
        [batch(0)], 100, lr=0.0, validation=[batch(1), batch(2)], evaluate_every=2, patience=3
    )
    # statistics of batch norm change the loss of the evaluations: the last three do not fall
    assert result.stopped == "early"
    values = [loss for _, loss in result.evaluations]
    assert min(values[-3:]) >= min(values[:-3])
    assert all(min(values[k : k + 3]) < min(values[:k]) for k in range(1, len(values) - 3))


def test_a_loss_that_is_not_finite_stops(trainer: Trainer, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    batches = [batch(number) for number in range(6)]
    batches[4] = (np.full_like(batches[4][0], np.nan), batches[4][1])
    with pytest.raises(TrainingError, match="the loss of step 5 is nan") as raised:
        trainer.fit(batches, 6, checkpoint=path, checkpoint_every=2)
    assert raised.value.code == "loss-not-finite"
    assert "the state after step 4" in raised.value.hint
    trainer.resume(path)
    assert trainer.steps == 4
    assert all(np.isfinite(value).all() for value in trainer.state().values())


def test_an_interrupt_ends_the_step_and_saves(trainer: Trainer, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"

    def on_step(done: int, metrics: dict[str, float]) -> None:
        if done == 3:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        trainer.fit([batch(0)], 100, checkpoint=path, on_step=on_step)
    assert trainer.steps == 3
    state = trainer.state()
    trainer.reset()
    trainer.resume(path)
    assert equal(trainer.state(), state)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_killed_run_resumes_its_curve(artifact: Path, tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        "import os, sys, numpy as np, lemurc\n"
        "artifact, path, kill = sys.argv[1], sys.argv[2], int(sys.argv[3])\n"
        "def batch(n):\n"
        "    g = np.random.default_rng(n)\n"
        "    return g.normal(size=(8, 6)).astype(np.float32), g.integers(0, 3, 8)\n"
        "def on_step(done, metrics):\n"
        "    print(done, repr(metrics['loss']), flush=True)\n"
        "    if done == kill: os.kill(os.getpid(), 9)\n"
        "trainer = lemurc.load(artifact)\n"
        "if os.path.exists(path): trainer.resume(path)\n"
        "trainer.fit([batch(n) for n in range(5)], 20, checkpoint=path, checkpoint_every=3,"
        " on_step=on_step)\n"
        "assert 'torch' not in sys.modules\n"
    )

    def run(path: Path, kill: int) -> tuple[int, dict[str, str]]:
        command = [sys.executable, str(script), str(artifact), str(path), str(kill)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode in (0, -9), done.stderr
        return done.returncode, dict(line.split() for line in done.stdout.splitlines())

    status, want = run(tmp_path / "whole.safetensors", 0)
    assert status == 0 and len(want) == 20
    for kill in (1, 6, 8, 17):
        path = tmp_path / f"{kill}.safetensors"
        assert run(path, kill)[0] == -9
        status, rest = run(path, 0)
        assert status == 0
        assert rest.items() <= want.items() and "20" in rest


@pytest.mark.parametrize(
    "options",
    [
        {"evaluate_every": 1},
        {"patience": 1},
        {"checkpoint_every": 1},
        {"checkpoint": "x", "checkpoint_every": 0},
    ],
)
def test_options_that_do_not_go_together(trainer: Trainer, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as raised:
        trainer.fit([batch(0)], 1, **options)
    assert raised.value.code == "bad-option"
    assert trainer.steps == 0


def test_calls_that_cannot_be_meant(trainer: Trainer, tmp_path: Path) -> None:
    x, y = batch(0)
    calls = {
        "unknown-option": lambda: trainer.fit([batch(0)], 1, epochs=3),
        "input-shape": lambda: trainer.step((x[:3], y[:3])),
        "argument-structure": lambda: trainer.step({"x": x, "y": y}),
    }
    for code, call in calls.items():
        with pytest.raises(LemurcError) as raised:
            call()
        assert raised.value.code == code
    assert trainer.steps == 0


def test_the_bar_is_for_terminals(trainer: Trainer, capsys: pytest.CaptureFixture[str]) -> None:
    trainer.fit([batch(0)], 2)
    assert capsys.readouterr() == ("", "")
    trainer.fit([batch(0)], 4, progress=True)
    shown = capsys.readouterr()
    assert shown.out == "" and "4/4" in shown.err and "loss" in shown.err
