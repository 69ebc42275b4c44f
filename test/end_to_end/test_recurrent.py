"""Recurrent layers and loops over a number of steps known at the call."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import lemurc

LAYERS: dict[str, Any] = {
    "lstm": lambda: nn.LSTM(4, 5, batch_first=True),
    "gru, two layers both ways": lambda: nn.GRU(4, 5, 2, batch_first=True, bidirectional=True),
    "lstm, both ways, steps first": lambda: nn.LSTM(4, 5, bidirectional=True),
    "rnn without biases": lambda: nn.RNN(4, 5, batch_first=True, bias=False),
    "rnn of relu": lambda: nn.RNN(4, 5, batch_first=True, nonlinearity="relu"),
}


class Recurrent(nn.Module):
    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Any) -> Any:
        return self.layers(x)


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_any_number_of_steps(make: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers = make()
    model = Recurrent(layers).eval()
    axis = 1 if layers.batch_first else 0
    shape = [2, 2, 4]
    shape[axis] = 6
    shapes = {"x": {axis: Dim("steps", max=128)}}
    result = lemurc.compile(
        model, (torch.randn(shape),), dynamic_shapes=shapes, output=tmp_path / "m.lemur"
    )
    with lemurc.load(result.path) as session:
        for steps in (1, 2, 7, 128):
            shape[axis] = steps
            x = torch.randn(shape)
            with torch.no_grad():
                want = model(x)
            torch.testing.assert_close(session(x), want, rtol=1e-4, atol=1e-5)


class Loop(nn.Module):
    """The body reads a weight and an argument from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Any, count: Any) -> Any:
        def unfinished(i: Any, y: Any) -> Any:
            return i < count

        def body(i: Any, y: Any) -> Any:
            return i + 1, torch.tanh(self.layer(y)) + x

        return torch._higher_order_ops.while_loop(unfinished, body, (torch.tensor(0), x.clone()))


def test_a_loop_that_captures(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Loop().eval()
    x = torch.randn(3, 4)
    result = lemurc.compile(model, (x, torch.tensor(3)), output=tmp_path / "m.lemur")
    with lemurc.load(result.path) as session:
        for count in (0, 1, 3, 20):
            with torch.no_grad():
                want = model(x, torch.tensor(count))
            torch.testing.assert_close(session(x, torch.tensor(count)), want)


class CountsFromAConstant(torch.nn.Module):
    """A loop that is known to begin: torch-mlir made one that never ends of it."""

    def forward(self, x: Any) -> Any:
        def body(i: Any, y: Any) -> Any:
            return i + 1, torch.where(torch.arange(4) == i, y * 2 + 1, y)

        start = torch.zeros((), dtype=torch.int64)
        return torch.ops.higher_order.while_loop(lambda i, y: i < 3, body, (start, x.clone()), ())


def test_a_loop_with_a_constant_start_ends(tmp_path: Path) -> None:
    x = torch.randn(4)
    result = lemurc.compile(CountsFromAConstant(), (x,), targets="cpu", output=tmp_path / "a.lemur")
    assert [verdict.status for verdict in result.verdicts] == ["verified"]
    with lemurc.load(result.path) as session:
        count, y = session(x.numpy())
    assert count == 3
    assert torch.equal(torch.from_numpy(y), torch.where(torch.arange(4) < 3, x * 2 + 1, x))
