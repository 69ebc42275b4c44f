"""Scattered writes and bags of embeddings against eager."""

import pytest
import torch
from torch.nn import functional as F

from lemurc.frontend.own_decompositions import own_decompositions

aten = torch.ops.aten
TABLE = own_decompositions()


@pytest.mark.parametrize("reduce", ["add", "multiply"])
def test_scatter_with_a_reduction(reduce: str) -> None:
    values, index = torch.randn(3, 6), torch.tensor([[0, 5, 0], [2, 2, 3]])
    source = torch.randn(2, 3)
    mine = TABLE[aten.scatter.reduce](values, 1, index, source, reduce=reduce)
    torch.testing.assert_close(mine, torch.scatter(values, 1, index, source, reduce=reduce))
    mine = TABLE[aten.scatter.value_reduce](values, 1, index, 3.0, reduce=reduce)
    torch.testing.assert_close(mine, torch.scatter(values, 1, index, 3.0, reduce=reduce))


@pytest.mark.parametrize("reduce", ["prod", "amax", "mean"])
@pytest.mark.parametrize("include_self", [True, False])
def test_index_reduce(reduce: str, include_self: bool) -> None:
    values, index, source = torch.randn(4, 3), torch.tensor([0, 2, 0]), torch.randn(3, 3)
    mine = TABLE[aten.index_reduce.default](
        values, 0, index, source, reduce, include_self=include_self
    )
    expected = values.index_reduce(0, index, source, reduce, include_self=include_self)
    torch.testing.assert_close(mine, expected)


@pytest.mark.parametrize("offset", [-1, 0, 2])
def test_strided_writes(offset: int) -> None:
    values = torch.randn(4, 5)
    source = torch.randn(values.diagonal(offset).shape)
    mine = TABLE[aten.diagonal_scatter.default](values, source, offset)
    assert torch.equal(mine, torch.diagonal_scatter(values, source, offset))
    mine = TABLE[aten.as_strided_scatter.default](values, torch.zeros(2, 3), [2, 3], [6, 2], 1)
    assert torch.equal(mine, values.as_strided_scatter(torch.zeros(2, 3), (2, 3), (6, 2), 1))
    where, what = torch.tensor([[1, 19], [3, 1]]), torch.randn(2, 2)
    mine = TABLE[aten.put.default](values, where, what, True)
    torch.testing.assert_close(mine, values.clone().put_(where, what, accumulate=True))


@pytest.mark.parametrize(("mode", "number"), [("sum", 0), ("mean", 1), ("max", 2)])
@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("last", [False, True])
def test_bags(mode: str, number: int, padding: int | None, last: bool) -> None:
    """An empty bag and one that holds only padding among them."""
    weight = torch.randn(9, 4)
    indices = torch.tensor([1, 8, 3, 3, 0, 8, 8, 2, 1])
    offsets = torch.tensor([0, 2, 4, 4, 9] if last else [0, 2, 4, 4])
    mine = TABLE[aten._embedding_bag.default](
        weight,
        indices,
        offsets,
        False,
        number,
        False,
        None,
        last,
        -1 if padding is None else padding,
    )[0]
    expected = F.embedding_bag(
        indices, weight, offsets, mode=mode, padding_idx=padding, include_last_offset=last
    )
    torch.testing.assert_close(mine, expected)


def test_rows_made_shorter() -> None:
    weight, indices = torch.randn(6, 4) * 3, torch.tensor([[0, 2], [2, 5]])
    mine = TABLE[aten.embedding_renorm.default](weight, indices, 1.0, 2.0)
    expected = weight.clone()
    F.embedding(indices, expected, max_norm=1.0)
    torch.testing.assert_close(mine, expected)


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize(
    ("first", "mask", "source"),
    [
        (0, (3, 4), ()),
        (0, (3, 4), ("n", 2)),
        (0, (3,), ("n", 4, 2)),
        (0, (3,), (4, 1)),
        (1, (4, 2), (3, "n")),
        (1, (4,), (3, 1, 2)),
    ],
)
def test_writes_through_a_mask(
    first: int, mask: tuple[int, ...], source: tuple[int | str, ...], accumulate: bool
) -> None:
    torch.manual_seed(3)
    values, chosen = torch.randn(3, 4, 2), torch.rand(mask) > 0.4
    count = int(chosen.sum())
    given = torch.randn([count if size == "n" else int(size) for size in source])
    index = [None] * first + [chosen]
    mine = TABLE[aten.index_put.default](values, index, given, accumulate)
    torch.testing.assert_close(mine, aten.index_put(values, index, given, accumulate))
    numbers = [torch.tensor([0, 2])]
    assert TABLE[aten.index_put.default](values, numbers, torch.zeros(())) is NotImplemented


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put_through_int32_of_a_later_dimension(accumulate: bool) -> None:
    values, index = torch.zeros(3, 4), torch.tensor([1, 3], dtype=torch.int32)
    source = torch.randn(3, 2)
    mine = TABLE[aten.index_put.default](values, [None, index], source, accumulate)
    assert torch.equal(mine, aten.index_put(values, [None, index], source, accumulate))
