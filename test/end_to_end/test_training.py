"""Compiled training steps against loops in PyTorch."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import lemurc
from lemurc.compiler import CompileResult
from lemurc.errors import LemurcError, UnsupportedModelError, UsageError

TARGETS = "cpu:host"


def mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))


def batch(number: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """One of a fixed series, of a problem that can be learnt."""
    centers = torch.randn(10, 20, generator=torch.Generator().manual_seed(99))
    generator = torch.Generator().manual_seed(number)
    labels = torch.randint(0, 10, (16,), generator=generator)
    return centers[labels] + torch.randn(16, 20, generator=generator), labels


def compile_training(path: Path, model: Any, loss: Any, spec: str, **options: Any) -> CompileResult:
    options = {"targets": TARGETS, "output": path / "model.lemur", **options}
    data = options.pop("data", batch())
    return lemurc.compile_training(model, loss, spec, data, **options)


def eager_losses(model: nn.Module, optimizer: Any, steps: int, dtype: Any, **options: Any) -> Any:
    """Losses of a loop in PyTorch; `clip_norm` and `accumulate` as for compile_training."""
    model = copy.deepcopy(model).to(dtype)
    made = optimizer(model.parameters())
    count = options.get("accumulate", 1)
    losses = []
    for step in range(steps):
        made.zero_grad()
        parts = []
        for part in range(count):
            x, y = batch(step * count + part)
            loss = F.cross_entropy(model(x.to(dtype)), y)
            (loss / count).backward()
            parts.append(loss.item())
        if "clip_norm" in options:
            nn.utils.clip_grad_norm_(model.parameters(), options["clip_norm"])
        made.step()
        losses.append(float(np.mean(parts)))
    return np.array(losses), model


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> CompileResult:
    folder = tmp_path_factory.mktemp("mlp")
    spec = "adamw:lr=3e-3,weight_decay=0.1"
    options = {"clip_norm": 1.0, "verify_steps": 5}
    return compile_training(folder, mlp(), F.cross_entropy, spec, **options)


def test_gradients_and_losses_are_verified(compiled: CompileResult) -> None:
    (verdict,) = compiled.verdicts
    assert verdict.status == "verified"
    assert "gradients of 6 tensors against eager in float64; losses of 5 steps" in verdict.detail
    assert set(compiled.manifest.functions) == {"step", "evaluate"}


def test_two_hundred_steps_follow_eager(compiled: CompileResult) -> None:
    def adamw(parameters: Any) -> Any:
        return torch.optim.AdamW(parameters, lr=3e-3, weight_decay=0.1)

    single, _ = eager_losses(mlp(), adamw, 200, torch.float32, clip_norm=1.0)
    exact, trained = eager_losses(mlp(), adamw, 200, torch.float64, clip_norm=1.0)
    with lemurc.load(compiled.path) as trainer:
        got = np.array([trainer.step(batch(number))["loss"] for number in range(200)])
        evaluated = trainer.evaluate(batch(1000))
    known = np.abs(single - exact) <= 0.01 * exact
    assert known.sum() > 150
    assert (np.abs(got - exact) <= 0.01 * exact)[known].all()
    assert exact[-10:].mean() < 0.5 * exact[0]
    x, y = batch(1000)
    output = trained.float().eval()(x).detach()
    torch.testing.assert_close(evaluated["output"], output, rtol=0.02, atol=0.02)
    assert evaluated["loss"] == pytest.approx(F.cross_entropy(output, y).item(), rel=0.02)


def test_gradients_of_several_batches_are_averaged(tmp_path: Path) -> None:
    spec = "sgd:momentum=0.9,weight_decay=0.01,nesterov=true"
    options = {"accumulate": 3, "clip_norm": 0.5}
    path = compile_training(tmp_path, mlp(), F.cross_entropy, spec, **options).path

    def sgd(parameters: Any) -> Any:
        return torch.optim.SGD(parameters, 0.05, 0.9, weight_decay=0.01, nesterov=True)

    want, _ = eager_losses(mlp(), sgd, 8, torch.float64, **options)
    with lemurc.load(path) as trainer:
        for step in range(8):
            batches = [batch(3 * step + part) for part in range(3)]
            assert trainer.step(batches, lr=0.05)["loss"] == pytest.approx(want[step], rel=1e-3)
        with pytest.raises(LemurcError, match="a step takes a list of 3 batches, got 2") as raised:
            trainer.step(batches[:2], lr=0.05)
        assert raised.value.code == "input-count"


class Drops(nn.Module):
    """The loss is linear in the weight, so that gradient and loss tell the masks."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 100))

    def forward(self, x: Any) -> Any:
        return F.dropout(self.weight * x, 0.25, self.training)


def test_dropout_drops_the_same_forwards_and_backwards(tmp_path: Path) -> None:
    x = torch.arange(1.0, 101.0)
    data = (x, torch.ones(()))

    def loss(output: Any, scale: Any) -> Any:
        return (output * scale).sum()

    result = compile_training(tmp_path, Drops(), loss, "sgd", data=data)
    assert "draws random numbers" in result.verdicts[0].detail
    with lemurc.load(result.path) as trainer:
        trainer.reset(seed=1)
        before = trainer.state_dict()["weight"].astype(float)
        value = trainer.step(data, lr=1.0)["loss"]
        gradient = before - trainer.state_dict()["weight"].astype(float)
        kept = np.abs(gradient) > 0.5
        assert 0.6 < kept.mean() < 0.9
        np.testing.assert_allclose(gradient[kept], np.tile(x / 0.75, (4, 1))[kept], rtol=1e-5)
        assert value == pytest.approx((before * gradient).sum(), rel=1e-5)
        second = trainer.step(data, lr=0.0)["loss"]
        trainer.reset(seed=1)
        assert trainer.step(data, lr=1.0)["loss"] == value
        assert trainer.step(data, lr=0.0)["loss"] != value
        trainer.reset(seed=2)
        assert trainer.step(data, lr=1.0)["loss"] not in (value, second)
        weight = trainer.state_dict()["weight"]
        whole = float((weight * x.numpy()).sum())
        assert trainer.evaluate(data)["loss"] == pytest.approx(whole, rel=1e-5)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        self.middle = nn.Linear(8, 8)
        self.middle.bias.requires_grad_(False)
        self.unused = nn.Linear(2, 2)
        self.head = nn.Linear(8, 12, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Any) -> Any:
        return self.head(torch.tanh(self.middle(self.embed(tokens))))


def test_tied_frozen_and_unused_parameters(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Tied()
    tokens = torch.randint(0, 12, (6,))
    data = (tokens, tokens.roll(1))
    result = compile_training(tmp_path, model, F.cross_entropy, "adam:lr=1e-2", data=data)
    assert any("does not depend on unused.weight, unused.bias" in note for note in result.notes)
    assert "gradients of 2 tensors" in result.verdicts[0].detail
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with lemurc.load(result.path) as trainer:
        for _ in range(3):
            trainer.step(data)
        found = {name: torch.from_numpy(value) for name, value in trainer.state_dict().items()}
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(tokens), data[1]).backward()
        optimizer.step()
    assert set(found) == set(start)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(found[name], value, rtol=1e-3, atol=1e-4)
    for name in ("middle.bias", "unused.weight", "unused.bias"):
        assert torch.equal(found[name], start[name])
    assert torch.equal(found["embed.weight"], found["head.weight"])
    model.load_state_dict(found)


class Incomplete(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(20, 10)

    def forward(self, x: Any) -> Any:
        h = self.linear(x).exp()
        return torch.special.gammaincc(h, torch.ones_like(h))


@pytest.mark.parametrize(
    ("loss", "code"),
    [
        (lambda output, y: F.cross_entropy(output, y, reduction="none"), "loss-not-scalar"),
        (lambda output, y: output.argmax(1).sum(), "loss-not-scalar"),
        (lambda output, y: 1.0, "loss-not-scalar"),
        (lambda output, y: F.cross_entropy(output.detach(), y), "loss-without-parameters"),
        (lambda output, y: F.cross_entropy(output, y[:3]), "eager-failed"),
    ],
)
def test_losses_that_cannot_be_trained(tmp_path: Path, loss: Any, code: str) -> None:
    with pytest.raises(UnsupportedModelError) as raised:
        compile_training(tmp_path, mlp(), loss, "sgd")
    assert raised.value.code == code
    assert not list(tmp_path.iterdir())


def test_an_operator_without_a_derivative_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match="igammac") as raised:
        compile_training(tmp_path, Incomplete(), lambda output, y: output.mean(), "sgd")
    assert raised.value.code == "no-derivative"
    line = Incomplete.forward.__code__.co_firstlineno + 2
    assert raised.value.where == f"{__file__}:{line}"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"loss": 3}, "bad-loss"),
        ({"data": torch.ones(16, 20)}, "bad-batch"),
        ({"spec": "adamv"}, "bad-optimizer"),
        ({"model": F.relu}, "not-a-module"),
        ({"clip_norm": 0.0}, "bad-option"),
        ({"accumulate": 0}, "bad-option"),
        ({"dynamic": ("0.0=n:1..4",)}, "bad-option"),
        ({"clip_nrm": 1.0}, "unknown-option"),
    ],
)
def test_arguments_that_cannot_be_meant(tmp_path: Path, change: dict[str, Any], code: str) -> None:
    arguments = {"model": mlp(), "loss": F.cross_entropy, "spec": "sgd", **change}
    with pytest.raises(UsageError) as raised:
        compile_training(tmp_path, **arguments)
    assert raised.value.code == code


def test_a_wrong_gradient_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the step itself: here its rule is given gradients that are a little too large."""
    from lemurc.frontend import steps

    right = steps.Step.updated

    def wrong(self: Any, gradients: dict[str, Any], lr: Any) -> Any:
        return right(self, {name: 1.001 * value for name, value in gradients.items()}, lr)

    monkeypatch.setattr(steps.Step, "updated", wrong)
    with pytest.raises(LemurcError, match=r"gradient of model\.\d\.\w+: error 1.0e-03") as raised:
        compile_training(tmp_path, mlp(), F.cross_entropy, "adam")
    assert raised.value.code == "verification-failed"
    assert not list(tmp_path.iterdir())
