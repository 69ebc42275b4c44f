"""Kinds of statements that work entry by entry, and casts."""

from typing import Any

from fuzz_graphs import DTYPES, FLOATS, INTEGERS, Draw, Kind, Made

KINDS: dict[str, Kind] = {}
SIGNED = ("int64", "int32", "int16", "int8")
NUMBERS = (*FLOATS, *INTEGERS)
WHOLE = (*INTEGERS, "bool")

_SMOOTH = {
    "exp": "torch.exp({})",
    "exp2": "torch.exp2({})",
    "expm1": "torch.expm1({})",
    "log": "torch.log({}.abs() + 0.5)",
    "log_of_any": "torch.log({})",
    "log1p": "torch.log1p({}.abs())",
    "log2": "torch.log2({}.abs() + 0.25)",
    "log10": "torch.log10({}.abs() + 0.25)",
    "sqrt": "torch.sqrt({})",
    "rsqrt": "torch.rsqrt({}.abs() + 0.1)",
    "sin": "torch.sin({}.clamp(-1e5, 1e5))",
    "cos": "torch.cos({}.clamp(-1e5, 1e5))",
    "tan": "torch.tan({}.clamp(-1, 1))",
    "sinh": "torch.sinh({})",
    "cosh": "torch.cosh({})",
    "tanh": "torch.tanh({})",
    "asin": "torch.asin({})",
    "acos": "torch.acos({})",
    "atan": "torch.atan({})",
    "asinh": "torch.asinh({})",
    "acosh": "torch.acosh({}.abs() + 1.25)",
    "atanh": "torch.atanh({}.clamp(-0.9, 0.9))",
    "sigmoid": "torch.sigmoid({})",
    "logit": "torch.logit({}, eps=0.1)",
    "erf": "torch.erf({})",
    "erfc": "torch.erfc({})",
    "erfinv": "torch.erfinv({}.clamp(-0.9, 0.9))",
    "lgamma": "torch.lgamma({}.abs() + 0.5)",
    "digamma": "torch.digamma({}.abs() + 0.5)",
    "gelu": "F.gelu({})",
    "gelu_tanh": "F.gelu({}, approximate='tanh')",
    "silu": "F.silu({})",
    "mish": "F.mish({})",
    "elu": "F.elu({}, 0.7)",
    "celu": "F.celu({}, 1.3)",
    "selu": "F.selu({})",
    "softplus": "F.softplus({}, 2.0)",
    "softsign": "F.softsign({})",
    "logsigmoid": "F.logsigmoid({})",
    "leaky_relu": "F.leaky_relu({}, 0.1)",
    "hardswish": "F.hardswish({})",
    "hardsigmoid": "F.hardsigmoid({})",
    "softshrink": "F.softshrink({}, 0.4)",
    "tanhshrink": "F.tanhshrink({})",
    "square": "torch.square({})",
    "reciprocal": "torch.reciprocal({})",
    "sinc": "torch.sinc({})",
    "xlogy": "torch.xlogy({}, 2.5)",
    "pow_scalar": "torch.pow({}, {s})",
    "rpow": "torch.pow({p}, {})",
    "add_scalar": "{} + {s}",
    "rsub": "{s} - {}",
    "mul_scalar": "{} * {s}",
    "div_scalar": "{} / {p}",
    "rdiv": "{s} / {}",
    "deg2rad": "torch.deg2rad({})",
}
_EXACT_FLOAT = {
    "frac": "torch.frac({})",
    "floor": "torch.floor({})",
    "ceil": "torch.ceil({})",
    "trunc": "torch.trunc({})",
    "round": "torch.round({})",
    "isnan": "torch.isnan({})",
    "isinf": "torch.isinf({})",
    "isfinite": "torch.isfinite({})",
    "nan_to_num": "torch.nan_to_num({}, 0.5, 3.0, -3.0)",
    "hardshrink": "F.hardshrink({}, 0.5)",
    "hardtanh": "F.hardtanh({}, -1.5, 2.0)",
    "relu6": "F.relu6({})",
    "threshold": "F.threshold({}, 0.5, -7.0)",
}
_EXACT_NUMBER = {
    "neg": "-{}",
    "abs": "torch.abs({})",
    "relu": "F.relu({})",
    "sign": "torch.sign({})",
    "signbit": "torch.signbit({})",
    "positive": "+{}",
    "clone": "{}.clone()",
    "zeros_like": "torch.zeros_like({})",
    "ones_like": "torch.ones_like({})",
    "full_like": "torch.full_like({}, 3)",
    "add_integer": "{} + {i}",
    "rsub_integer": "{i} - {}",
    "mul_integer": "{} * {i}",
    "clamp_integer": "torch.clamp({}, -2, {n})",
    "clamp_min": "torch.clamp({}, min={i})",
    "clamp_max": "torch.clamp({}, max={i})",
    "eq_scalar": "{} == {i}",
    "gt_scalar": "{} > {i}",
    "le_scalar": "{} <= {s}",
    "logical_not": "torch.logical_not({})",
}
_JUMPS = {"sign", "signbit", "eq_scalar", "gt_scalar", "le_scalar", "logical_not"}
_WHOLE = {
    "bitwise_not": "torch.bitwise_not({})",
    "bitwise_and_scalar": "{} & {n}",
    "shift_left": "torch.bitwise_left_shift({}, {n})",
    "shift_right": "torch.bitwise_right_shift({}, {n})",
    "floordiv_scalar": "torch.div({}, {d}, rounding_mode='floor')",
    "truncdiv_scalar": "torch.div({}, {d}, rounding_mode='trunc')",
    "remainder_scalar": "torch.remainder({}, {d})",
    "fmod_scalar": "torch.fmod({}, {d})",
    "true_divide": "{} / {d}",
    "power": "torch.pow({}, {n})",
    "sqrt_of_integer": "torch.sqrt({})",
    "sigmoid_of_integer": "torch.sigmoid({})",
}
_BINARY = {
    "add": "torch.add({}, {})",
    "add_alpha": "torch.add({}, {}, alpha=2)",
    "sub": "torch.sub({}, {})",
    "mul": "torch.mul({}, {})",
    "div": "torch.div({}, {})",
    "atan2": "torch.atan2({}, {})",
    "hypot": "torch.hypot({}, {})",
    "logaddexp": "torch.logaddexp({}, {})",
    "lerp": "torch.lerp({}, {}, 0.3)",
    "pow": "torch.pow({}.abs() + 0.5, {})",
    "mse": "F.mse_loss({}, {})",
    "l1": "F.l1_loss({}, {}, reduction='none')",
    "smooth_l1": "F.smooth_l1_loss({}, {})",
    "addcmul": "torch.addcmul({}, {}, {}, value=0.5)",
    "addcdiv": "torch.addcdiv({}, {}, {}.abs() + 1, value=0.5)",
}
_BINARY_EXACT = {
    "maximum": "torch.maximum({}, {})",
    "minimum": "torch.minimum({}, {})",
    "fmax": "torch.fmax({}, {})",
    "fmin": "torch.fmin({}, {})",
}
_BINARY_JUMPS = {
    "eq": "torch.eq({}, {})",
    "ne": "torch.ne({}, {})",
    "lt": "torch.lt({}, {})",
    "le": "torch.le({}, {})",
    "gt": "torch.gt({}, {})",
    "ge": "torch.ge({}, {})",
    "isclose": "torch.isclose({}, {})",
    "logical_and": "torch.logical_and({}, {})",
    "logical_or": "torch.logical_or({}, {})",
    "logical_xor": "torch.logical_xor({}, {})",
    "copysign": "torch.copysign({}, {})",
    "heaviside": "torch.heaviside({}, {})",
    "remainder": "torch.remainder({}, {})",
    "fmod": "torch.fmod({}, {})",
    "floor_divide": "torch.floor_divide({}, {})",
}
_BINARY_WHOLE = {
    "bitwise_and": "torch.bitwise_and({}, {})",
    "bitwise_or": "torch.bitwise_or({}, {})",
    "bitwise_xor": "torch.bitwise_xor({}, {})",
    "gcd": "torch.gcd({}, {})",
    "integer_add": "torch.add({}, {})",
    "integer_sub": "torch.sub({}, {})",
    "integer_mul": "torch.mul({}, {})",
    # Divisors that neither are zero nor make the quotient overflow.
    "integer_floordiv": "torch.div({}, {}.clamp(1, 9), rounding_mode='floor')",
    "integer_truncdiv": "torch.div({}, {}.clamp(1, 9), rounding_mode='trunc')",
    "integer_remainder": "torch.remainder({}, {}.clamp(1, 9))",
    "negative_remainder": "torch.remainder({}, {}.clamp(-9, -2))",
    "negative_fmod": "torch.fmod({}, {}.clamp(-9, -2))",
    "negative_floordiv": "torch.floor_divide({}, {}.clamp(-9, -2))",
}


def _numbers(draw: Draw) -> dict[str, Any]:
    return {
        "s": draw.rng.choice((0.5, 2.0, -1.5, 3.0, 0.25)),
        "p": draw.rng.choice((0.5, 2.0, 1.5, 3.0)),
        "i": draw.rng.choice((-3, -1, 0, 1, 2, 7)),
        "n": draw.rng.choice((0, 1, 2, 3, 5)),
        "d": draw.rng.choice((1, 2, 3, 7)),
    }


def _unary(template: str, dtypes: tuple[str, ...], *, exact: bool, jumps: bool) -> Kind:
    def make(draw: Draw) -> Made | None:
        x = draw.pick(dtypes, exact=jumps)
        return template.format(x.name, **_numbers(draw)), (x,), exact

    return make


def _binary(template: str, dtypes: tuple[str, ...], *, exact: bool, jumps: bool) -> Kind:
    def make(draw: Draw) -> Made | None:
        x = draw.pick(dtypes, exact=jumps)
        others = [draw.other(x, exact=jumps) for _ in range(template.count("{}") - 1)]
        if any(other.dtype not in (*dtypes, "bool") for other in others):
            return None
        if draw.chance(0.3) and len(others) == 1:
            others, x = [x], others[0]
        operands = (x, *others)
        return template.format(*(o.name for o in operands)), operands, exact

    return make


def _where(draw: Draw) -> Made | None:
    x = draw.pick()
    y = draw.other(x)
    mask = draw.like(x, "bool") if draw.chance(0.5) else draw.pick(("bool",))
    return f"torch.where({mask.name}, {x.name}, {y.name})", (mask, x, y), True


def _masked_fill(draw: Draw) -> Made | None:
    x = draw.pick(NUMBERS)
    mask = draw.like(x, "bool")
    fill = "-inf" if x.dtype in FLOATS and draw.chance(0.3) else "2"
    return f"{x.name}.masked_fill({mask.name}, {fill})", (x, mask), True


def _clamp(draw: Draw) -> Made | None:
    x = draw.pick(NUMBERS)
    low, high = draw.like(x), draw.like(x)
    return f"torch.clamp({x.name}, {low.name}, {high.name})", (x, low, high), True


def _cast(draw: Draw) -> Made | None:
    """To integers only what is exact and in range: eager leaves the rest undefined."""
    target = draw.rng.choice(DTYPES)
    x = draw.pick(exact=target not in FLOATS)
    if x.dtype in FLOATS and target in INTEGERS:
        low = 0 if target == "uint8" else -100
        return (
            f"{x.name}.nan_to_num(0.0, 0.0, 0.0).clamp({low}, 100).to(torch.{target})",
            (x,),
            True,
        )
    return f"{x.name}.to(torch.{target})", (x,), target not in FLOATS or x.exact


for _name, _template in _SMOOTH.items():
    KINDS[_name] = _unary(_template, FLOATS, exact=False, jumps=False)
for _name, _template in _EXACT_FLOAT.items():
    KINDS[_name] = _unary(_template, FLOATS, exact=True, jumps=True)
for _name, _template in _EXACT_NUMBER.items():
    # Sums and products of floats and integers are rounded once: exact in every order.
    KINDS[_name] = _unary(_template, NUMBERS, exact=True, jumps=_name in _JUMPS)
for _name, _template in _WHOLE.items():
    KINDS[_name] = _unary(_template, INTEGERS, exact=_template.count("/") == 0, jumps=False)
for _name, _template in _BINARY.items():
    KINDS[_name] = _binary(_template, FLOATS, exact=False, jumps=False)
for _name, _template in _BINARY_EXACT.items():
    KINDS[_name] = _binary(_template, NUMBERS, exact=True, jumps=False)
for _name, _template in _BINARY_JUMPS.items():
    # A quotient rounded before it is floored is right by policy, but not to the bit.
    _divides = _name in ("remainder", "fmod", "floor_divide")
    _dtypes = FLOATS if _divides or _name == "copysign" else NUMBERS
    KINDS[_name] = _binary(_template, _dtypes, exact=not _divides, jumps=True)
for _name, _template in _BINARY_WHOLE.items():
    KINDS[_name] = _binary(_template, INTEGERS, exact=True, jumps=True)
KINDS |= {"where": _where, "masked_fill": _masked_fill, "clamp_tensors": _clamp, "cast": _cast}
