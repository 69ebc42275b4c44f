"""Calls cut in micro-batches answer what whole ones answer, overlap, and take less memory."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import lemurc
from lemurc.errors import UsageError
from lemurc.system_file import (
    DeviceDescription,
    LinkDescription,
    SystemDescription,
    write_system,
)

WIDTH, BATCH = 32, 8


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm1(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Encoder(nn.Module):
    """With an input that is no batch, two results, and a dictionary around them."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.table = nn.Embedding(50, WIDTH)
        self.layers = nn.Sequential(*(Block(WIDTH) for _ in range(layers)))

    def forward(self, tokens: torch.Tensor, places: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = self.layers(self.table(tokens) + places)
        return {"hidden": hidden, "pooled": hidden[:, 0].tanh()}


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.Conv2d(8, 8, 3)
        self.norm, self.pool = nn.BatchNorm2d(8), nn.MaxPool2d(2)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(nn.functional.pad(self.norm(self.first(x)).relu(), (1, 1, 1, 1)))
        logits: torch.Tensor = self.head(self.second(x).mean((2, 3)))
        return logits.softmax(-1)


def encoder(layers: int = 2) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    tokens = torch.randint(0, 50, (BATCH, 6))
    return Encoder(layers).eval(), (tokens, torch.randn(6, WIDTH))


def convolutions() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return Convolutions().eval(), (torch.randn(BATCH, 3, 20, 20),)


def system(count: int, memory: int | None = None) -> SystemDescription:
    devices = (
        DeviceDescription(f"cpu:{k}", "cpu", threads=1, slowdown=1.0 + k / 2, memory=memory)
        for k in range(count)
    )
    return SystemDescription(tuple(devices))


def compiled(
    model: nn.Module, args: Any, folder: Path, described: SystemDescription, **options: Any
) -> Any:
    write_system(folder / "system.json", described)
    options = {"verify": False, "golden": "none", "objective": "throughput"} | options
    return lemurc.compile(
        model, args, system=folder / "system.json", output=folder / "model.lemur", **options
    )


def same(got: Any, want: Any) -> None:
    for y, r in zip(tree_leaves(got), tree_leaves(want), strict=True):
        torch.testing.assert_close(torch.as_tensor(np.asarray(y)), r, rtol=0, atol=2e-5)


@pytest.mark.parametrize("count", [2, 3, 4, 8])
@pytest.mark.parametrize("build", [encoder, convolutions])
def test_parts_answer_what_the_whole_answers(
    build: Callable[[], Any], count: int, tmp_path: Path
) -> None:
    model, args = build()
    described = system(count)
    result = compiled(model, args, tmp_path, described, micro_batches=4)
    assert result.manifest.plans[0].micro_batches["main"].count == 4
    assert "calls of main are cut in 4 micro-batches" in result.notes
    with torch.no_grad():
        want = model(*args)
    with lemurc.load(result.path, simulate=described, strict=True) as session:
        got = session(*args)
        same(got, want)
        same(session(*args, outputs="device"), want)
        for streamed in session.stream([args] * 4):
            same(streamed, got)
    used = [device.name for device in result.manifest.plans[0].devices]
    with lemurc.load(result.path, devices=used) as session:
        same(session(*args), want)
        same(session.run_async(*args).result(), want)
        session.timeout = 60.0
        same(session(*args), want)
        for streamed in session.stream([args] * 4):
            same(streamed, want)


class Weighted(nn.Module):
    """`places` is the same for each of the batch, `own` is not."""

    def __init__(self, own: bool) -> None:
        super().__init__()
        self.register_buffer("places", torch.arange(6)[None])
        self.table = nn.Embedding(6, 4)
        self.own = nn.Parameter(torch.randn(BATCH, 1, 1)) if own else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.table(self.places.expand(BATCH, 6))
        return x if self.own is None else x * self.own


@pytest.mark.parametrize("own", [False, True])
def test_weights_as_long_as_the_batch(own: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, args = Weighted(own).eval(), (torch.randn(BATCH, 6, 4),)
    result = compiled(model, args, tmp_path, system(2), micro_batches=4)
    cut = "calls of main are cut in 4 micro-batches"
    whole = (
        "calls of main are not cut in micro-batches: own has another value for each of the batch"
    )
    assert (whole if own else cut) in result.notes
    with torch.no_grad(), lemurc.load(result.path, devices=["cpu"]) as session:
        same(session(*args), model(*args))


DEPENDENT: dict[str, Callable[[torch.Tensor], Any]] = {
    "mean of the batch": lambda x: x - x.mean(0),
    "softmax over the batch": lambda x: x.softmax(0),
    "products within the batch": lambda x: x @ x.T,
    "sums along the batch": lambda x: x.cumsum(0),
    "the batch backwards": lambda x: x.flip(0),
    "neighbours": lambda x: x[1:] - x[:-1],
    "rolled": lambda x: x.roll(1, 0),
    "places in the batch": lambda x: x + torch.arange(BATCH)[:, None],
    "another order": lambda x: x.T.contiguous().view(BATCH, -1),
    "one of the batch": lambda x: x + x[3],
    "sorted": lambda x: x.sort(0)[0],
    "a scalar": lambda x: x.sum(),
    "a constant": lambda x: torch.ones(BATCH, 2),
    "largest of the batch": lambda x: (x, x.amax(0)),
    "another batch": lambda x: x.repeat(2, 1),
}


class Function(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


@pytest.mark.parametrize("name", DEPENDENT)
def test_what_depends_on_the_whole_batch_is_not_cut(name: str, tmp_path: Path) -> None:
    model, args = Function(DEPENDENT[name]), (torch.randn(BATCH, 4),)
    result = compiled(model, args, tmp_path, system(2), micro_batches=2)
    assert not result.manifest.plans[0].micro_batches
    assert any("calls of main are not cut in micro-batches: " in note for note in result.notes)
    with lemurc.load(result.path, devices=["cpu"]) as session:
        same(session(*args), model(*args))


INDEPENDENT: dict[str, Callable[[torch.Tensor], Any]] = {
    "softmax": lambda x: x.softmax(1),
    "sums": lambda x: x.cumsum(1).sum(1, keepdim=True),
    "halves": lambda x: torch.cat([x[:, 2:], -x[:, :2]], 1),
    "heads": lambda x: x.view(BATCH, 2, 2).transpose(1, 2).reshape(BATCH, 4) * 2,
    "rows of the batch": lambda x: (x.view(BATCH * 2, 2) @ torch.ones(2, 3)).view(BATCH, -1),
    "longer results": lambda x: (x, x.view(2 * BATCH, 2).relu()),
    "products": lambda x: torch.bmm(x.view(BATCH, 2, 2), x.view(BATCH, 2, 2)),
    "in the batch's place": lambda x: x.view(BATCH, 2, 2).transpose(0, 1).relu().transpose(0, 1),
}


@pytest.mark.parametrize("name", INDEPENDENT)
def test_what_keeps_the_batch_apart_is_cut(name: str, tmp_path: Path) -> None:
    model, args = Function(INDEPENDENT[name]), (torch.randn(BATCH, 4),)
    result = compiled(model, args, tmp_path, system(2), micro_batches=4)
    if name != "sums":  # a scan is one operation whose loop nobody looks into
        assert result.manifest.plans[0].micro_batches["main"].count == 4
    with lemurc.load(result.path, devices=["cpu"]) as session:
        same(session(*args), model(*args))


@pytest.mark.alone
def test_devices_overlap_within_a_call_and_hold_less(tmp_path: Path) -> None:
    """A pipeline of two: 4 parts take about (4 + 1) / 8 of the time of one, here asleep."""
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(64) for _ in range(4))).eval()
    args = (torch.randn(32, 16, 64),)
    slow = SystemDescription(
        tuple(DeviceDescription(f"cpu:{k}", "cpu", threads=1, slowdown=16.0) for k in range(2))
    )
    pins = tuple(f"{k}*=cpu:{k // 2}" for k in range(4))
    seconds, peaks = {}, {}
    for count in (1, 4):
        (tmp_path / str(count)).mkdir()
        result = compiled(model, args, tmp_path / str(count), slow, micro_batches=count, pins=pins)
        with lemurc.load(result.path, simulate=slow, strict=True) as session:
            same(session(*args), model(*args))
            taken = []
            for _ in range(5):
                begin = time.perf_counter()
                session(*args)
                taken.append(time.perf_counter() - begin)
            seconds[count] = min(taken)
            peaks[count] = [device.peak_bytes for device in session.simulated]
            predicted = session.plan.predicted["main"].memory
            for device in session.simulated:
                assert device.peak_bytes <= 1.05 * predicted[device.device].peak
    assert seconds[4] < 0.85 * seconds[1]
    assert all(few < whole for few, whole in zip(peaks[4], peaks[1], strict=True))


def test_the_planner_chooses_how_many(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(256) for _ in range(2))).eval()
    args = (torch.randn(16, 16, 256),)
    result = compiled(model, args, tmp_path, system(2))
    count = result.manifest.plans[0].micro_batches["main"].count
    assert count > 1
    said = f"calls of main are cut in {count} micro-batches, predicted to take"
    assert any(note.startswith(said) for note in result.notes)
    assert not compiled(
        model, args, tmp_path, system(2), objective="latency"
    ).manifest.plans[0].micro_batches  # fmt: skip


class Narrowing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.down = nn.Sequential(
            nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU()
        )
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.down(self.stem(x)).mean((2, 3)))
        return logits


def test_parts_do_not_cost_the_second_device(tmp_path: Path) -> None:
    """Parts are too small for two devices here: a call in two of them, all on one device, would
    be quicker than a whole one over both, but calls that follow each other slower."""
    devices = tuple(DeviceDescription(f"cpu:{k}", "cpu", slowdown=1.0 + k) for k in range(2))
    link = LinkDescription("cpu:0", "cpu:1", 5e-5, {"1": 1e10})
    write_system(path := tmp_path / "system.json", SystemDescription(devices, (link,)))
    args = (torch.randn(4, 3, 32, 32),)
    busiest = {}
    for count in ("auto", 1, 2):
        made = lemurc.plan(
            Narrowing().eval(), args, system=path, objective="throughput", micro_batches=count
        )
        busiest[count] = max(made.plans[0].functions[0].seconds_by_device.values())
    assert busiest[2] > 1.1 * busiest[1]
    assert busiest["auto"] <= 1.1 * busiest[1]


def test_what_is_said_of_sizes_and_state(tmp_path: Path) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return x + self.count

    def why(model: nn.Module, args: Any, count: int, **options: Any) -> str:
        result = compiled(model, args, tmp_path, system(1), micro_batches=count, **options)
        (note,) = [note for note in result.notes if "not cut" in note]
        return note.partition(": ")[2]

    batch = torch.export.Dim("batch", min=2, max=8)
    linear = nn.Linear(4, 4)
    assert why(Counting(), (torch.ones(4),), 2).startswith("it keeps state")
    assert why(linear, (torch.ones(8, 4),), 3) == "3 parts of a batch of 8 are not equal"
    dynamic = why(linear, (torch.ones(4, 4),), 2, dynamic_shapes=({0: batch},))
    assert dynamic == "the size of its batch is known at the call only"


@pytest.mark.parametrize("count", [0, -1, "many", 2.0, True])
def test_what_is_no_number_of_parts(count: Any) -> None:
    with pytest.raises(UsageError) as raised:
        lemurc.compile(nn.ReLU(), (torch.ones(2),), micro_batches=count)
    assert raised.value.code == "bad-option"
