"""Models that change their arguments: the caller's arrays and tensors change as in eager."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import lemurc
from lemurc.errors import InputError
from lemurc.runtime.session import Session


class Changes(nn.Module):
    """Whole, through a slice, through a view, by an index, and from another argument."""

    def forward(self, whole: Any, part: Any, rows: Any, index: Any, copied: Any) -> Any:
        whole.mul_(2)
        part[:, 1:].add_(1)
        part.view(-1)[0] = 7
        rows[index] += rows[index]
        copied.copy_(whole)
        return whole + 1, rows.sum()


def arguments() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(3)
    return (
        torch.arange(6),
        torch.randn(3, 4, generator=generator),
        torch.randn(4, 5, generator=generator),
        torch.tensor([2, 2, 0]),
        torch.zeros(6, dtype=torch.int64),
    )


UPDATED = (0, 1, 2, 4)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    path = tmp_path_factory.mktemp("updates") / "model.lemur"
    lemurc.compile(Changes(), arguments(), output=path)
    return lemurc.load(path)


def eager() -> tuple[Any, tuple[torch.Tensor, ...]]:
    args = arguments()
    return Changes()(*args), args


def test_the_manifest_says_which(session: Session) -> None:
    assert set(session.manifest.functions["main"].input_updates) == {str(i) for i in UPDATED}


def test_torch_tensors_change_as_in_eager(session: Session) -> None:
    want, changed = eager()
    args = arguments()
    for got, expected in zip((*session(*args), *args), (*want, *changed), strict=True):
        torch.testing.assert_close(got, expected)


def test_numpy_arrays_of_any_strides_change(session: Session) -> None:
    want, changed = eager()
    apart = [np.zeros((*a.shape[:-1], 3 * a.shape[-1]), a.numpy().dtype) for a in arguments()]
    args = [wide[..., ::3] for wide in apart]
    for array, tensor in zip(args, arguments(), strict=True):
        array[...] = tensor.numpy()
    results = session(*args)
    np.testing.assert_allclose(results[0], want[0].numpy())
    for got, expected in zip(args, changed, strict=True):
        np.testing.assert_allclose(got, expected.numpy(), rtol=1e-6)
    assert not apart[0][1::3].any(), "elements between those of a strided argument changed"


def test_transposed_tensors_change(session: Session) -> None:
    _, changed = eager()
    args = list(arguments())
    args[1] = args[1].t().contiguous().t()
    session(*args)
    torch.testing.assert_close(args[1], changed[1])


def test_asynchronous_calls_change_them_by_the_time_of_the_result(session: Session) -> None:
    _, changed = eager()
    args = arguments()
    session.run_async(*args).result()
    for got, expected in zip(args, changed, strict=True):
        torch.testing.assert_close(got, expected)


def test_results_are_not_the_arguments(session: Session) -> None:
    args = [tensor.numpy() for tensor in arguments()]
    results = session(*args)
    assert not any(np.shares_memory(y, x) for y in results for x in args)


def read_only(args: list[Any]) -> None:
    args[0].flags.writeable = False


def broadcast(args: list[Any]) -> None:
    args[1] = torch.zeros(1, 4).expand(3, 4)


def overlapping(args: list[Any]) -> None:
    args[4] = args[0]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [(read_only, "read-only"), (broadcast, "share memory"), (overlapping, "shares memory with")],
)
def test_what_cannot_be_changed_is_refused_before_the_call(
    spoil: Any, words: str, session: Session
) -> None:
    args: list[Any] = [tensor.numpy() for tensor in arguments()]
    spoil(args)
    with pytest.raises(InputError, match=words) as caught:
        session(*args)
    assert caught.value.code == "input-not-writable"
    np.testing.assert_array_equal(args[2], arguments()[2].numpy())


class Step(nn.Module):
    def forward(self, cache: Any, x: Any) -> Any:
        cache.add_(x)
        return cache * 1, cache.sum()


def test_values_on_a_device_are_replaced_without_a_copy(tmp_path: Path) -> None:
    result = lemurc.compile(Step(), (torch.zeros(4), torch.ones(4)), output=tmp_path / "m.lemur")
    one = np.ones(4, np.float32)
    with lemurc.load(result.path) as session:
        cache, _ = session(np.zeros(4, np.float32), one, outputs="device")
        for step in range(3):
            _, total = session(cache, one, outputs="device")
            assert float(total.numpy()) == 4.0 * (step + 2)
        np.testing.assert_array_equal(cache.numpy(), np.full(4, 4.0))


def test_verify_and_golden_outputs_take_no_harm(session: Session) -> None:
    import lemurc.tools.verify as tools

    checked = tools.verify(session.artifact.path, devices=["cpu"])
    assert checked.ok, checked


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(4))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, more: dict[str, Tensor]) -> Tensor:
        return torch.softmax(q @ k.mT, -1) @ v + more["a"] - self.bias


def test_examples_that_share_memory_are_different_inputs(tmp_path: Path) -> None:
    """One tensor for several arguments, a view of it, and a weight of the model."""
    model = Attention()
    q = torch.randn(2, 3, 4)
    args = (q, q, q.view(2, 3, 4), {"a": model.bias})
    result = lemurc.compile(model, args, output=tmp_path / "x.lemur")
    assert len(result.manifest.functions["main"].inputs) == 4
    other = (*(torch.randn(2, 3, 4) for _ in range(3)), {"a": torch.randn(4)})
    with lemurc.load(result.path) as session:
        torch.testing.assert_close(session(*other), model(*other).detach())
