"""Elementary and special functions against eager in f64."""

import math

import pytest
import torch

from lemurc.frontend.own_decompositions import own_decompositions

aten = torch.ops.aten
TABLE = own_decompositions()
WIDE = torch.cat([torch.linspace(-9.3, 9.3, 1001), torch.logspace(-6, 1.5, 200)]).double()
UNIT = torch.cat([torch.linspace(-1, 1, 401), 1 - torch.logspace(-6, -1, 30)]).double()


@pytest.mark.parametrize(
    ("operator", "x"),
    [
        (aten.atan.default, WIDE),
        (aten.atanh.default, UNIT),
        (aten.cosh.default, WIDE),
        (aten.digamma.default, WIDE),
        (aten.erfc.default, WIDE),
        (aten.erfinv.default, UNIT),
        (aten.i0.default, WIDE),
        (aten.log10.default, WIDE),
        (aten.lgamma.default, WIDE),
        (aten.sinh.default, WIDE),
        (aten.special_erfcx.default, WIDE),
        (aten.special_i0e.default, WIDE),
        (aten.special_i1.default, WIDE),
        (aten.special_i1e.default, WIDE),
        (aten.tan.default, WIDE),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("dtype", "rtol", "atol"), [(torch.float32, 2e-5, 1e-6), (torch.float64, 1e-11, 1e-13)]
)
def test_function(
    operator: torch._ops.OpOverload,
    x: torch.Tensor,
    dtype: torch.dtype,
    rtol: float,
    atol: float,
) -> None:
    x = x.to(dtype)
    mine = TABLE[operator](x)
    assert mine.dtype is dtype
    expected = operator(x.double())
    infinite = ~torch.isfinite(expected)
    # next to a pole half an ulp of x decides
    tame = (expected.abs() < 1e4) | infinite if operator is not aten.i0.default else ~infinite
    torch.testing.assert_close(
        mine.double()[tame], expected[tame], rtol=rtol, atol=atol, equal_nan=True
    )


@pytest.mark.parametrize(
    ("operator", "x"),
    [
        (aten.erf.default, WIDE),
        (aten.gelu.default, WIDE),
        (aten.log2.default, WIDE),
    ],
    ids=["erf", "gelu", "log2"],
)
def test_function_that_iree_lacks_in_f64(operator: torch._ops.OpOverload, x: torch.Tensor) -> None:
    special = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan], dtype=torch.float64)
    x = torch.cat([x, special])
    torch.testing.assert_close(
        TABLE[operator](x), operator(x), rtol=1e-13, atol=1e-15, equal_nan=True
    )
    assert TABLE[operator](x.float()) is NotImplemented


@pytest.mark.parametrize("operator", [aten.cos.default, aten.sin.default], ids=str)
@pytest.mark.parametrize(
    ("dtype", "rtol", "atol"), [(torch.float32, 0.0, 2e-7), (torch.float64, 1e-13, 1e-15)]
)
def test_sine_and_cosine(
    operator: torch._ops.OpOverload, dtype: torch.dtype, rtol: float, atol: float
) -> None:
    special = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan])
    x = torch.cat([1000 * WIDE, special]).to(dtype)
    made, want = TABLE[operator](x).double(), operator(x.double())
    torch.testing.assert_close(made, want, rtol=rtol, atol=atol, equal_nan=True)


@pytest.mark.parametrize("operator", [aten.acos.default, aten.asin.default], ids=str)
@pytest.mark.parametrize(
    ("dtype", "rtol", "atol"), [(torch.float32, 3e-7, 3e-7), (torch.float64, 1e-13, 1e-15)]
)
def test_arccosine_and_arcsine(
    operator: torch._ops.OpOverload, dtype: torch.dtype, rtol: float, atol: float
) -> None:
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, 1.5, -3.0, math.inf, -math.inf, math.nan])
    x = torch.cat([UNIT, special]).to(dtype)
    made, want = TABLE[operator](x).double(), operator(x.double())
    torch.testing.assert_close(made, want, rtol=rtol, atol=atol, equal_nan=True)


def test_gelu_with_tanh_in_f64() -> None:
    mine = TABLE[aten.gelu.default](WIDE, approximate="tanh")
    torch.testing.assert_close(
        mine, torch.nn.functional.gelu(WIDE, approximate="tanh"), rtol=1e-12, atol=1e-15
    )


def test_the_larger_and_the_smaller_number() -> None:
    x = torch.tensor([1.0, math.nan, 2.0, math.nan, -math.inf])
    y = torch.tensor([math.nan, 1.0, 3.0, math.nan, math.nan], dtype=torch.float64)
    for operator in (aten.fmax.default, aten.fmin.default):
        mine = TABLE[operator](x, y)
        torch.testing.assert_close(mine, operator(x, y), equal_nan=True, rtol=0, atol=0)


def test_poles_and_zeros() -> None:
    x = torch.tensor([0.0, -1.0, -2.0, 1.0, 2.0, math.inf, math.nan])
    torch.testing.assert_close(
        TABLE[aten.lgamma.default](x), torch.lgamma(x), equal_nan=True, rtol=0, atol=1e-7
    )
    y = torch.tensor([0.0, -0.0, -3.0, math.inf])
    torch.testing.assert_close(TABLE[aten.digamma.default](y), torch.digamma(y), equal_nan=True)


def test_signs_of_zeros_and_infinities() -> None:
    x = torch.tensor([1.0, -1.0, 0.0, -0.0, math.inf, -math.inf])
    assert torch.equal(TABLE[aten.signbit.default](x), torch.signbit(x))
    for sign in (x.flip(0), torch.tensor(-0.0)):
        mine = TABLE[aten.copysign.Tensor](x, sign)
        assert torch.equal(mine, torch.copysign(x, sign))
        assert torch.equal(torch.signbit(mine), torch.signbit(torch.copysign(x, sign)))
    assert torch.equal(TABLE[aten.isfinite.default](x), torch.isfinite(x))
    torch.testing.assert_close(
        TABLE[aten.hypot.default](x * 1e30, x.flip(0) * 1e30),
        torch.hypot(x * 1e30, x.flip(0) * 1e30),
    )


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_integers(dtype: torch.dtype) -> None:
    base, exponent = torch.arange(-40, 41).to(dtype), torch.arange(75, -6, -1).to(dtype)
    for operator in (aten.pow.Tensor_Tensor, aten.gcd.default, aten.lcm.default):
        small = exponent % 30 - 2
        assert torch.equal(TABLE[operator](base, small), operator(base, small))
    least = torch.tensor([-32768, -32768, -32768, 6], dtype=torch.int16)
    other = torch.tensor([0, 6, 7, -32768], dtype=torch.int16)
    assert torch.equal(TABLE[aten.gcd.default](least, other), torch.gcd(least, other))
    for power in (0, 1, 2, 5):
        assert torch.equal(TABLE[aten.pow.Tensor_Scalar](base, power), base**power)
    assert TABLE[aten.pow.Tensor_Scalar](base.float(), 3) is NotImplemented


def test_complex_numbers_are_left_alone() -> None:
    z = torch.ones(2, dtype=torch.complex64)
    for operator in (aten.sinh.default, aten.isfinite.default, aten.pow.Tensor_Scalar):
        arguments = (z, 2) if operator is aten.pow.Tensor_Scalar else (z,)
        assert TABLE[operator](*arguments) is NotImplemented
