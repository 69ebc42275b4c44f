"""Random numbers: right in distribution, other ones in each call, repeatable by seed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import lemurc
from lemurc.errors import UsageError

X = torch.ones(64, 128)


class Draws(nn.Module):
    def forward(self, x: Any) -> Any:
        dropped = F.dropout(x, 0.25, training=True)
        return dropped, torch.rand(64, 128), torch.randn(64, 128), x * 2


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    result = lemurc.compile(Draws(), (X,), output=tmp_path_factory.mktemp("random") / "m.lemur")
    (verdict,) = result.verdicts
    assert verdict.status == "verified"
    assert "random" in verdict.detail
    assert not result.manifest.golden
    return result.path


def test_distributions(path: Path) -> None:
    with lemurc.load(path) as session:
        dropped, uniform, normal, double = session(X)
    assert 0.22 < (dropped == 0).float().mean() < 0.28
    torch.testing.assert_close(dropped[dropped != 0].unique(), torch.tensor([1 / 0.75]))
    assert 0 <= uniform.min() and uniform.max() < 1
    # five standard errors of 8192 draws
    assert abs(uniform.mean() - 0.5) < 5 * 0.289 / 90.5
    assert abs(normal.mean()) < 5 / 90.5
    assert abs(normal.std() - 1) < 5 / 128
    torch.testing.assert_close(double, 2 * X)


def test_calls_differ_and_sessions_repeat(path: Path) -> None:
    with lemurc.load(path) as session, lemurc.load(path) as other:
        first, second = session(X)[1], session(X)[1]
        assert not torch.equal(first, second)
        torch.testing.assert_close(other(X)[1], first, rtol=0, atol=0)
        other.load_state(session.state())
        torch.testing.assert_close(other(X)[1], session(X)[1], rtol=0, atol=0)
        session.reset()
        torch.testing.assert_close(session(X)[1], first, rtol=0, atol=0)


def test_seeds(path: Path) -> None:
    drawn = []
    with lemurc.load(path) as session:
        for seed in (1, 2, -1, 1):
            session.reset(seed=seed)
            drawn.append(session(X)[1].numpy())
    assert np.array_equal(drawn[0], drawn[3])
    for other in drawn[1:3]:
        assert abs(np.corrcoef(drawn[0].ravel(), other.ravel())[0, 1]) < 5 / 90.5


def test_a_seed_for_a_model_that_draws_nothing(tmp_path: Path) -> None:
    result = lemurc.compile(nn.ReLU(), (X,), output=tmp_path / "m.lemur")
    with lemurc.load(result.path) as session, pytest.raises(UsageError) as caught:
        session.reset(seed=1)
    assert caught.value.code == "nothing-random"


def test_only_what_depends_on_a_draw_goes_uncompared() -> None:
    program = lemurc.frontend.load.load(Draws(), (X,))
    assert program.random == {"main": (0, 1, 2)}


class Quiet(nn.Module):
    """Operators that draw in training and not here."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.recurrent = nn.LSTM(16, 16, 2, dropout=0.1, batch_first=True)

    def forward(self, x: Any) -> Any:
        attended = F.scaled_dot_product_attention(x, x, x, dropout_p=0.0)
        return self.recurrent(F.rrelu(self.layer(x) + attended))[0]


def test_a_model_in_evaluation_draws_nothing() -> None:
    program = lemurc.frontend.load.load(Quiet().eval(), (torch.randn(1, 5, 16),))
    assert not program.random
    assert not program.state


class DropsAttention(nn.Module):
    def forward(self, x: Any) -> Any:
        return F.scaled_dot_product_attention(
            x, x, x, dropout_p=0.5
        ), F.scaled_dot_product_attention(x, x, x)


def test_attention_with_dropout_draws() -> None:
    program = lemurc.frontend.load.load(DropsAttention(), (torch.randn(1, 2, 5, 16),))
    assert program.random == {"main": (0,)}
