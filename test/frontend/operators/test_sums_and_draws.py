"""Long sums against f64, and draws by their distribution."""

import pytest
import torch

from lemurc.frontend.own_decompositions import own_decompositions

aten = torch.ops.aten
TABLE = own_decompositions()


@pytest.mark.parametrize("shape", [(1 << 20,), (50021, 3), (4, 300, 211)])
def test_long_sums(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape) + 1
    mine = TABLE[aten.sum.default](x)
    torch.testing.assert_close(mine.double(), x.double().sum(), rtol=1e-6, atol=0)
    dims = [1, -1] if len(shape) > 2 else [0]
    for keep in (False, True):
        mine = TABLE[aten.mean.dim](x, dims, keep)
        torch.testing.assert_close(mine.double(), x.double().mean(dims, keep), rtol=1e-6, atol=0)


def test_short_sums_stay_whole() -> None:
    assert TABLE[aten.sum.default](torch.ones(64, 64)) is NotImplemented
    assert TABLE[aten.sum.default](torch.ones(1 << 15, dtype=torch.int64)) is NotImplemented


def test_multinomial_draws_by_weight() -> None:
    weights = torch.tensor([[0.0, 0.5, 0.0, 1.5, 0.0], [0.0, 0.0, 2.0, 0.0, 0.0]])
    drawn = TABLE[aten.multinomial.default](weights, 4000, True)
    assert drawn.shape == (2, 4000) and set(drawn[0].tolist()) == {1, 3}
    assert set(drawn[1].tolist()) == {2}
    assert abs((drawn[0] == 1).float().mean() - 0.25) < 0.04
    for _ in range(20):
        without = TABLE[aten.multinomial.default](weights[:1], 2)
        assert set(without[0].tolist()) == {1, 3}


def test_permutations() -> None:
    assert torch.equal(TABLE[aten.randperm.default](50).sort()[0], torch.arange(50))


def test_normal_has_a_deviation_of_one_by_default() -> None:
    mean = torch.linspace(-100, 100, 1000)
    drawn = own_decompositions()[torch.ops.aten.normal.Tensor_float](mean) - mean
    assert abs(float(drawn.mean())) < 0.2
    assert abs(float(drawn.std()) - 1) < 0.2
