"""What eager refuses while it runs is refused, and no foreign memory is read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import lemurc
from lemurc.errors import InputError
from lemurc.runtime.session import Session

FAR = 10**12


class Lookups(nn.Module):
    """Tables read by arguments, by computed indices, and from the end."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 4)
        self.register_buffer("positions", torch.arange(3))

    def forward(self, ids: Any, x: Any, at: Any, back: Any) -> Any:
        own = self.table(self.positions) + self.table(x.argmax(1))
        computed = self.table(ids * 2)
        return self.table(ids) + own, computed, x.gather(1, at), x[back]


def lookups() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 5, generator=generator)
    return torch.tensor([1, 4, 0]), x, torch.tensor([[0, 4], [1, 2], [3, 3]]), torch.tensor([-3, 2])


class Writes(nn.Module):
    """Places that are written to; `i` is in -3..2, the range of the narrower dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(6, 3))

    def forward(self, x: Any, k: Any, i: Any) -> Any:
        self.cache[i] = k
        columns = x.clone()
        columns[:, i] = k[0, :2]
        return (
            x.index_put((i,), k),
            x.index_put((i,), k, accumulate=True),
            x.index_put((i, i), k[:, 0]),
            x.index_put((i - 1,), k),
            x.put(i, k[:, 0]),
            x.index_fill(0, i, 3.0),
            columns,
            self.cache * 1,
        )


class FromTheFront(nn.Module):
    """Where eager takes no negative index, though what they are decomposed into does."""

    def forward(self, x: Any, k: Any, i: Any, j: Any, at: Any, label: Any) -> Any:
        unpooled = nn.functional.max_unpool1d(k[None], at, 2)
        loss = nn.functional.multi_margin_loss(x[:2], label)
        return x.index_add(0, i, k), x.index_copy(0, j, k), unpooled, loss


def written(*index: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(2)
    x, k = torch.randn(6, 3, generator=generator), torch.randn(2, 3, generator=generator)
    return x, k, torch.tensor(index)


class Asserts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Any, n: Any) -> Any:
        self.calls += 1
        torch._assert_async(x.sum() > 0, "the weights of a batch add up to something")
        k = (n + 1).item()
        torch._check(k >= 0)
        torch._check(k <= 8)
        return x.narrow(0, 0, k).sum(0) * self.calls


class Divisions(nn.Module):
    def forward(self, a: Any, b: Any) -> Any:
        return a // b, a % (b - 1), a % 3


class Table(nn.Module):
    """The size of the table is known at the call only."""

    def forward(self, x: Any, at: Any) -> Any:
        return x[at] * 2, torch.index_select(x, 0, at.abs())


class Free(nn.Module):
    def forward(self, x: Any) -> Any:
        return x[:, torch.arange(3)] + x.argmax(1, keepdim=True)


Compile = Callable[..., Session]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    made: dict[str, Session] = {}

    def run(model: nn.Module, args: tuple[Any, ...], **options: Any) -> Session:
        name = type(model).__name__
        if name not in made:
            torch.manual_seed(0)
            path = tmp_path_factory.mktemp("guards") / f"{name}.lemur"
            lemurc.compile(model.eval(), args, output=path, **options)
            made[name] = lemurc.load(path)
        made[name].reset()
        return made[name]

    return run


LOOKUPS = {
    "an argument too large": (0, torch.tensor([1, FAR, 0]), "input-range", ["10", "ids", str(FAR)]),
    "an argument negative": (
        0,
        torch.tensor([1, -1, 0]),
        "input-range",
        ["10", "-1", "test_guards.py"],
    ),
    "a computed index": (0, torch.tensor([1, 7, 0]), "check-failed", ["10", "test_guards.py"]),
    "gather": (2, torch.tensor([[0, 5], [1, 2], [3, 3]]), "input-range", ["5"]),
    "too far from the end": (3, torch.tensor([-4, 0]), "input-range", ["-4", "-3..2"]),
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_index_out_of_range(name: str, compiled: Compile) -> None:
    position, value, code, words = LOOKUPS[name]
    session = compiled(Lookups(), lookups())
    args = list(lookups())
    args[position] = value
    with pytest.raises(InputError) as caught:
        session(*args)
    assert caught.value.code == code
    for word in words:
        assert word in str(caught.value), caught.value
    for result in session(*lookups()):
        assert result.isfinite().all()


@pytest.mark.parametrize("index", [(2, 0), (-1, 1), (-3, -2)])
def test_writes_count_from_the_end(index: tuple[int, int], compiled: Compile) -> None:
    session = compiled(Writes(), written(0, 1))
    for got, want in zip(session(*written(*index)), Writes()(*written(*index)), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=0)


@pytest.mark.parametrize("index", [(-4, 0), (3, 0)])
def test_writes_out_of_range(index: tuple[int, int], compiled: Compile) -> None:
    session = compiled(Writes(), written(0, 1))
    with pytest.raises(InputError) as caught:
        session(*written(*index))
    assert caught.value.code == "input-range"


@pytest.mark.parametrize("position", [2, 3, 4, 5])
def test_negative_indices_that_eager_refuses(position: int, compiled: Compile) -> None:
    places = torch.tensor([[[0, 2, 4], [1, 3, 5]]])
    args = [*written(0, 1), torch.tensor([3, 2]), places, torch.tensor([0, 2])]
    session = compiled(FromTheFront(), tuple(args))
    for got, want in zip(session(*args), FromTheFront()(*args), strict=True):
        torch.testing.assert_close(torch.as_tensor(got), want)
    wrong = args[position].clone()
    wrong.view(-1)[0] = -1
    args[position] = wrong
    with pytest.raises((RuntimeError, IndexError)):
        FromTheFront()(*args)
    with pytest.raises(InputError):
        session(*args)


def test_indices_provably_in_range_cost_nothing(compiled: Compile) -> None:
    function = compiled(Free(), (torch.randn(2, 5),)).manifest.functions["main"]
    assert function.checks == () and function.input_ranges == ()


def test_one_check_for_all_lookups_by_one_index(compiled: Compile) -> None:
    function = compiled(Lookups(), lookups()).manifest.functions["main"]
    assert len(function.checks) == 1
    assert [r.input for r in function.input_ranges] == [0, 2, 3]


def test_device_tensors_are_looked_at_too(compiled: Compile) -> None:
    session = compiled(Divisions(), (torch.tensor([7, -7]), torch.tensor([2, 3])))
    first, _, _ = session(np.array([1, 9]), np.array([3, 3]), outputs="device")
    with pytest.raises(InputError, match="zero"):
        session(np.array([1, 9]), first)  # 1 // 3 is 0


def test_assertions_and_bounds_of_numbers(compiled: Compile) -> None:
    model, x = Asserts(), torch.ones(8, 3)
    session = compiled(model, (x, torch.tensor(4)))
    torch.testing.assert_close(session(x, torch.tensor(2)), x[:3].sum(0))
    with pytest.raises(InputError, match=r"0\.\.8|-1\.\.7") as caught:
        session(x, torch.tensor(FAR))
    assert "range" in str(caught.value)
    with pytest.raises(InputError, match="add up to something") as caught:
        session(-x, torch.tensor(2))
    assert caught.value.code == "check-failed"
    # a call that failed has not happened
    assert session.state()["calls"] == 1.0


@pytest.mark.parametrize(("a", "b"), [([7, -7], [0, 3]), ([7, -7], [2, 1]), ([0, 0], [0, 0])])
def test_integer_division_by_zero(a: list[int], b: list[int], compiled: Compile) -> None:
    session = compiled(Divisions(), (torch.tensor([7, -7]), torch.tensor([2, 3])))
    with pytest.raises(InputError, match="zero"):
        session(torch.tensor(a), torch.tensor(b))


def test_the_least_integer_by_minus_one_is_no_signal(compiled: Compile) -> None:
    session = compiled(Divisions(), (torch.tensor([7, -7]), torch.tensor([2, 3])))
    least = torch.iinfo(torch.int64).min
    results = session(torch.tensor([least, 5]), torch.tensor([-1, -1]))
    assert results[0].tolist() == [least, -5]


def test_tables_of_dynamic_size(compiled: Compile) -> None:
    session = compiled(
        Table(),
        (torch.randn(6, 2), torch.tensor([0, 5])),
        dynamic_shapes={"x": {0: Dim("rows", min=2, max=64)}, "at": None},
    )
    for rows in (2, 9, 64):
        x, at = torch.randn(rows, 2), torch.tensor([rows - 1, 1 - rows])
        torch.testing.assert_close(session(x, at), Table()(x, at))
        for outside in (rows, -rows - 1, FAR):
            with pytest.raises(InputError) as caught:
                session(x, torch.tensor([0, outside]))
            assert caught.value.code == "check-failed"


class Chosen(nn.Module):
    def forward(self, x: Any, m: Any) -> Any:
        places = torch.nonzero(m)
        return places, x[m], torch.masked_select(x, m).sum(), x[m[:, 0]]


def test_results_as_long_as_the_data_says(compiled: Compile) -> None:
    x = torch.randn(4, 5)
    session = compiled(Chosen(), (x, x > 0))
    for mask in (x > 0.3, x > 100, x < 100, x.abs() > 1):
        torch.testing.assert_close(session(x, mask), Chosen()(x, mask))


def test_verification_draws_only_what_is_allowed(compiled: Compile, tmp_path: Path) -> None:
    import lemurc.tools.verify as tools

    assert tools.verify(compiled(Lookups(), lookups()).artifact.path, devices=["cpu"]).ok
