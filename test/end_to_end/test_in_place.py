"""Operators that IREE computes in place leave what others read as it is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import lemurc
from lemurc.errors import DeviceError
from lemurc.frontend.ties import StableTies
from lemurc.runtime import transport
from lemurc.runtime.executor import StageExecutor

I = torch.tensor  # noqa: E741


class Sorts(nn.Module):
    def forward(self, x: Any) -> Any:
        y = torch.tanh(x)
        return (
            torch.sort(x),
            torch.sort(x, descending=True),
            torch.sort(y)[0],
            torch.argsort(y, descending=True),
            y,
            torch.arange(x.shape[0]),
        )


class Places(nn.Module):
    """One sort, and the same places read elsewhere."""

    def forward(self, x: Any) -> Any:
        return torch.argsort(x), torch.arange(x.shape[0]) + 1, torch.arange(x.shape[0])


class Scatters(nn.Module):
    def forward(self, x: Any) -> Any:
        y, zeros = torch.tanh(x), torch.zeros_like(x)
        return (
            torch.scatter(y, 0, I([1, 2]), I([9.0, 8.0])),
            torch.scatter(y, 0, I([3]), I([7.0])),
            torch.scatter(zeros, 0, I([0]), I([5.0])),
            torch.scatter(zeros, 0, I([1]), I([4.0])),
            torch.cumsum(y, 0),
            zeros,
            y,
        )


class ReadLater(nn.Module):
    """Enough to do side by side that the copy of `y` could come after its update."""

    def forward(self, x: Any, bytes_: Any, new: Any, z: Any) -> Any:
        y = torch.sigmoid(bytes_)
        places = torch.arange(y.shape[-1]).flip(0).expand(y.shape)
        updated = torch.scatter(y, -1, places, new)
        return y, y <= 0.25, torch.cumsum(z, -1), torch.cdist(x, x + 1.0), updated


class Overwrites(nn.Module):
    """Everything that IREE 3.13 was seen to write into its operand, each with its own."""

    def forward(self, at: Any, *x: Any) -> Any:
        ones, one = torch.ones(1, 256), at[:, None].expand(1, 256)
        return (
            x[0].index_put((at,), ones),
            x[1].index_put((at,), ones, accumulate=True),
            x[2].scatter(0, one, ones),
            x[3].scatter_add(0, one, ones),
            x[4].scatter_reduce(0, one, ones, "amax"),
            x[5].index_add(0, at, ones),
            x[6].index_copy(0, at, ones),
            x[7].index_fill(0, at, 3.0),
            x[8].sort(0)[0],
            x[9].sort(1, descending=True),
            x[10].topk(3),
            torch.slice_scatter(x[11], torch.ones(2, 256), 0, 3, 5),
            torch.diagonal_scatter(x[12], torch.ones(128)),
            x[13].put(at, torch.ones(1)),
            x[14].view(64, 512).index_put((at,), torch.ones(1, 512)),
            x[15].flatten().index_put((at,), torch.ones(1)),
            x[16][None].index_put((at * 0, at), ones),
            x[17].clone().index_put_((at,), ones) + x[17],
        )


class Cache(nn.Module):
    """Two variables, one of them read twice."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(128, 256))
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: Any, at: Any) -> Any:
        self.rows[at] = x
        self.count += 1
        return self.rows.sum(1) * self.count


class DynamicSorts(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.sort(x), torch.sort(x, descending=True), torch.topk(x, 3), x + 1


class Computed(nn.Module):
    """Tensors that nothing is read for, updated in places and read as they were."""

    def forward(self, x: Any) -> Any:
        threes, zeros, padded = torch.full_like(x, 3), torch.zeros_like(x), F.pad(x, (1, 1))
        counts = torch.arange(x.shape[0]).to(x.dtype) - 1
        wide = counts[:, None].expand(-1, 3).contiguous()
        return (
            [(torch.topk(same, 1).values, torch.sort(same)) for same in (threes, threes + 1)],
            [torch.sort(counts, descending=down) for down in (True, False)],
            [torch.scatter(same, 0, I([0]), I([5.0])) for same in (zeros, threes, counts)],
            [torch.slice_scatter(same, x[1:3], 0, at, at + 2) for same in (zeros, counts)
             for at in (0, 1)],
            [zeros.index_put((I([at]),), x[:1], accumulate=at > 1) for at in (1, 2)],
            [wide.index_add(0, I([at]), x[None, :3]) for at in (1, 2)],
            [wide.sort(dim, descending=True) for dim in (0, 1)],
            torch.slice_scatter(torch.zeros_like(padded), x, 0, 1, x.shape[0] + 1),
            (threes, zeros, counts, wide, padded, torch.zeros_like(padded), counts + 1),
        )  # fmt: skip


class Slices(nn.Module):
    """Sorted and updated where the rest is read too."""

    def forward(self, x: Any) -> Any:
        both = torch.stack([x, -x]) * 2
        return (
            both[0].sort(),
            both[1, 1:].sort(descending=True),
            both.sort(0).values[0].argsort(),
            both[1].scatter(0, I([1]), I([7.0])),
            both[:, 1:3].sort(1),
            both,
        )


class Routes(nn.Module):
    """Places that are a slice of what was sorted, read and returned."""

    def forward(self, x: Any) -> Any:
        scores = x[:, None] * torch.linspace(0.0, 3.0, 8).cos()
        values, places = torch.topk(scores, 2, dim=-1)
        weights = torch.softmax(values, -1)
        return weights, places, torch.zeros_like(scores).scatter(1, places, weights)


def test_a_value_is_copied_before_it_is_updated(tmp_path: Path) -> None:
    torch.manual_seed(0)
    bytes_ = torch.arange(36, dtype=torch.uint8).view(6, 6) % 9
    args = (torch.randn(8, 16), bytes_, torch.randn(6, 6), torch.randn(8, 16))
    result = lemurc.compile(ReadLater(), args, output=tmp_path / "m.lemur", verify=False)
    with lemurc.load(result.path) as session:
        torch.testing.assert_close(tuple(session(*args)), ReadLater()(*args))


@pytest.mark.parametrize(
    "model", [Sorts(), Places(), Scatters(), Computed()], ids=lambda m: type(m).__name__
)
def test_nothing_else_changes(model: nn.Module, tmp_path: Path) -> None:
    torch.manual_seed(0)
    result = lemurc.compile(model, (torch.randn(11),), output=tmp_path / "m.lemur")
    with lemurc.load(result.path) as session:
        x = torch.randn(11)
        with StableTies():
            torch.testing.assert_close(session(x), model(x))


SHAPES = {"x": {0: Dim("n", min=4, max=64)}}


@pytest.mark.parametrize(
    "model", [DynamicSorts(), Computed(), Slices(), Routes()], ids=lambda m: type(m).__name__
)
@pytest.mark.parametrize("level", [0, 2])
def test_nothing_else_changes_at_any_length(model: nn.Module, level: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    result = lemurc.compile(
        model,
        (torch.randn(11),),
        dynamic_shapes=SHAPES,
        opt_level=level,
        output=tmp_path / "m.lemur",
    )
    with lemurc.load(result.path) as session:
        for length in (4, 11, 64):
            x = torch.randn(length)
            with StableTies():
                torch.testing.assert_close(session(x), model(x))


def aligned(shape: tuple[int, ...]) -> np.ndarray:
    """Memory that a session computes from where it is, as it does from a tensor's."""
    return torch.randn(shape).numpy()


def test_arguments_are_left_alone(tmp_path: Path) -> None:
    model, at = Overwrites(), I([5])
    example = (at, *(torch.randn(128, 256) for _ in range(18)))
    compiled = lemurc.compile(model, example, targets="cpu", output=tmp_path / "m.lemur")
    with lemurc.load(compiled.path) as session:
        given = [aligned((128, 256)) for _ in range(18)]
        kept = [array.copy() for array in given]
        session(at.numpy(), *given)
        for k, (array, before) in enumerate(zip(given, kept, strict=True)):
            np.testing.assert_array_equal(array, before, err_msg=str(k))
        on_device = session(at.numpy(), *given, outputs="device")[0]
        before = on_device.numpy().copy()
        session(at.numpy() + 1, on_device, *given[1:])
        np.testing.assert_array_equal(on_device.numpy(), before)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    example = (torch.randn(1, 256), I([3]))
    path = tmp_path_factory.mktemp("cache") / "m.lemur"
    return lemurc.compile(Cache(), example, targets="cpu", output=path).path


def rows(session: Any) -> float:
    return float(session.state()["rows"].sum()) / 256


def test_sessions_with_a_common_past_go_their_own_ways(cache: Path) -> None:
    one = np.ones((1, 256), np.float32)
    with lemurc.load(cache) as session:
        session(one, np.array([0]))
        saved, twin = session.state(), session.copy()
        session(one, np.array([1]))
        assert (rows(session), rows(twin)) == (2, 1)
        twin(one, np.array([2]))
        twin(one, np.array([3]))
        assert (rows(session), rows(twin), saved["rows"].sum() / 256) == (2, 3, 1)
        session.load_state(saved)
        session(one, np.array([4]))
        assert (rows(session), saved["rows"].sum() / 256) == (2, 1)
        session.reset()
        session(one, np.array([5]))
        assert (rows(session), rows(lemurc.load(cache))) == (1, 0)


def test_state_is_updated_where_it_lies(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []

    def duplicate(view: Any, *rest: Any) -> Any:
        copied.append(view.get_buffer().byte_length())
        return original(view, *rest)

    original = transport.duplicate
    monkeypatch.setattr(transport, "duplicate", duplicate)
    one = np.ones((1, 256), np.float32)
    with lemurc.load(cache) as session:
        for at in range(3):
            session(one, np.array([at]))
        assert not copied
        with session.copy() as twin:
            twin(one, np.array([7]))
            assert copied == [128 * 256 * 4]
            twin(one, np.array([8]))
            assert len(copied) == 1
            assert (rows(session), rows(twin)) == (3, 5)


def test_state_that_went_down_with_a_call_is_not_used(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = np.ones((1, 256), np.float32)
    with lemurc.load(cache) as session:
        session(one, np.array([0]))
        with monkeypatch.context() as broken:
            broken.setattr(StageExecutor, "submit", fail)
            with pytest.raises(DeviceError):
                session(one, np.array([1]))
        with pytest.raises(DeviceError) as caught:
            session(one, np.array([1]))
        assert caught.value.code == "state-lost"
        session.reset()
        session(one, np.array([1]))
        assert rows(session) == 1


def fail(*_: Any) -> None:
    raise DeviceError("it broke", code="run-failed", where="cpu:0")
