"""Recurrent layers over a number of steps that is unknown or large, as loops.

torch.export unrolls LSTM, GRU and RNN, so it takes the number of steps of the example for
the only one. While `loops_for_recurrent_layers` is active they are torch.while_loop:

    i, ys, h = 0, zeros, h0;  while i < n: h = cell(xs[i], h); ys[i] = h; i += 1

A few known steps still unroll: the whole sequence is then one stage that IREE optimises.
Gates as in the documentation of torch.nn.LSTM, GRU and RNN; packed sequences and
projections are left to PyTorch.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import _VF, Tensor
from torch._higher_order_ops.while_loop import while_loop

_LONGEST_UNROLLED = 256

_State = tuple[Tensor, ...]
_Cell = Callable[[Tensor, Tensor, _State], _State]
"""From the input's share of the gates, the state's share and the state to the next state."""


@contextmanager
def loops_for_recurrent_layers() -> Iterator[None]:
    """PyTorch's recurrent functions trace as loops where unrolling would not do."""
    with (
        mock.patch.object(_VF, "lstm", _layers(_lstm_cell, _VF.lstm, several=True)),
        mock.patch.object(_VF, "gru", _layers(_gru_cell, _VF.gru)),
        mock.patch.object(_VF, "rnn_tanh", _layers(_rnn_cell(torch.tanh), _VF.rnn_tanh)),
        mock.patch.object(_VF, "rnn_relu", _layers(_rnn_cell(torch.relu), _VF.rnn_relu)),
    ):
        yield


def _lstm_cell(x: Tensor, h: Tensor, state: _State) -> _State:
    i, f, g, o = (x + h).chunk(4, -1)
    c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def _gru_cell(x: Tensor, h: Tensor, state: _State) -> _State:
    (xr, xz, xn), (hr, hz, hn) = x.chunk(3, -1), h.chunk(3, -1)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    n = torch.tanh(xn + r * hn)
    return (n + z * (state[0] - n),)


def _rnn_cell(activation: Callable[[Tensor], Tensor]) -> _Cell:
    return lambda x, h, state: (activation(x + h),)


def _layers(cell: _Cell, original: Callable[..., Any], *, several: bool = False) -> Any:
    """A replacement of `original`; `several` states (h, c) come and go as a tuple."""

    def run(x: Tensor, hx: Any, *rest: Any) -> Any:
        if len(rest) != 7 or not isinstance(rest[0], (list, tuple)):
            return original(x, hx, *rest)  # a packed sequence
        weights, biases, layers, dropout, training, both_ways, batch_first = rest
        states = tuple(hx) if several else (hx,)
        steps = x.shape[1 if batch_first else 0]
        known = isinstance(steps, int) and steps <= _LONGEST_UNROLLED
        projected = several and states[0].shape[-1] != states[1].shape[-1]
        if known or projected or (training and dropout):
            return original(x, hx, *rest)
        xs = x.transpose(0, 1) if batch_first else x
        directions = 2 if both_ways else 1
        per_cell = 4 if biases else 2
        last: list[_State] = []
        for layer in range(layers):
            outputs = []
            for direction in range(directions):
                at = layer * directions + direction
                cell_weights = weights[at * per_cell : (at + 1) * per_cell]
                begin = tuple(state[at] for state in states)
                ys, end = _run(cell, xs, begin, cell_weights, backwards=direction == 1)
                outputs.append(ys)
                last.append(end)
            xs = torch.cat(outputs, -1)
        final = tuple(torch.stack(parts) for parts in zip(*last, strict=True))
        return (xs.transpose(0, 1) if batch_first else xs, *final)

    return run


def _run(
    cell: _Cell, xs: Tensor, begin: _State, weights: Sequence[Tensor], *, backwards: bool
) -> tuple[Tensor, _State]:
    """One layer in one direction: all outputs, steps first, and the last state."""
    w_input, w_state, *biases = weights
    shares = xs @ w_input.T + biases[0] if biases else xs @ w_input.T
    shares = shares.flip(0) if backwards else shares
    count = torch.scalar_tensor(xs.shape[0], dtype=torch.int64)
    outputs = xs.new_zeros(xs.shape[0], *begin[0].shape)

    def unfinished(i: Tensor, ys: Tensor, *state: Tensor) -> Tensor:
        return i < count

    def advance(i: Tensor, ys: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        place = i.reshape(1)
        x = shares.index_select(0, place).squeeze(0)
        h = state[0] @ w_state.T
        following = cell(x, h + biases[1] if biases else h, state)
        return i + 1, ys.index_copy(0, place, following[0].unsqueeze(0)), *following

    first = torch.zeros((), dtype=torch.int64)
    begin = tuple(state.clone() for state in begin)
    _, ys, *end = while_loop(unfinished, advance, (first, outputs, *begin))
    return ys.flip(0) if backwards else ys, tuple(end)
