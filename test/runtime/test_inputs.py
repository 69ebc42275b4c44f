"""What a call accepts, and the words it refuses with."""

import collections
import dataclasses

import ml_dtypes
import numpy as np
import pytest

import lemurc
from lemurc.errors import InputError
from lemurc.manifest import SymbolicDim, TensorSpec

ADD = "%r = arith.addf %a, %b : f32"
X = np.arange(4, dtype=np.float32)
LEAF = {"kind": "leaf"}


def refused(session, *args, **kwargs):
    with pytest.raises(InputError) as caught:
        session(*args, **kwargs)
    assert caught.value.exit_status == 8
    return caught.value


@pytest.mark.parametrize(
    "bad, code, words",
    [
        (X.astype(np.float64), "input-dtype", ["'x0'", "float64", "float32", "astype"]),
        (X.astype(">f4"), "input-dtype", ["'x0'", ">f4"]),
        (X[:3], "input-shape", ["'x0'", "size 3 in dimension 0", "[4]", "[3]"]),
        (X.reshape(2, 2), "input-shape", ["'x0'", "2 dimensions", "[2, 2]"]),
        ([0.0, 1.0], "input-type", ["'x0'", "list", "tensor"]),
        (None, "input-type", ["'x0'", "NoneType"]),
        ("text", "input-type", ["'x0'", "str"]),
        (np.ma.masked_less(X, 2), "input-type", ["'x0'", "masked array", "filled"]),
        (1.5, "input-shape", ["'x0'"]),
    ],
)
def test_refusals(adder, bad, code, words):
    with lemurc.load(adder) as session:
        error = refused(session, bad)
        assert error.code == code
        for word in words:
            assert word in str(error)


def test_counts_and_names(adder):
    with lemurc.load(adder) as session:
        assert "missing" in refused(session).message
        assert "too many" in refused(session, X, X).message
        assert "'nope'" in refused(session, X, nope=X).message
        assert "twice" in refused(session, X, x0=X).message
        assert "main(x0)" in refused(session).message


def test_a_misspelt_name(adder):
    with lemurc.load(adder) as session:
        assert "'x_0', did you mean 'x0'?" in refused(session, x_0=X).message
        assert "did you mean 'outputs'?" in refused(session, X, output="device").message
        assert "did you mean" not in refused(session, X, elephant=X).message


@pytest.fixture(scope="module")
def sized(lab, stage):
    """x[n, 4] + y[n, 4] with n in 2..8, a multiple of 2"""
    n = SymbolicDim("n", 2, 8, 2)
    add = stage(("input:0", "input:1"), ("v0",), ADD, shape=(n, 4))
    return lab.write("sized", {"s": add}, [{"s": "cpu:0"}], ["v0"])


def rows(n):
    return np.ones((n, 4), np.float32)


def test_symbols(sized):
    with lemurc.load(sized) as session:
        for n in (2, 4, 8):
            np.testing.assert_array_equal(session(rows(n), rows(n)), 2 * rows(n))
        assert "outside 2..8" in refused(session, rows(10), rows(10)).message
        assert "outside 2..8" in refused(session, rows(0), rows(0)).message
        assert "multiple of 2" in refused(session, rows(3), rows(3)).message
        message = refused(session, rows(4), rows(6)).message
        assert "x1" in message and "n = 6" in message and "x0 has n = 4" in message
        assert "[n:2..8*2, 4]" in message


@pytest.fixture(scope="module")
def nested(lab, stage, edit_function):
    """f(pair, *, scale=None, extra): pair is a dict {a, b}; y = {"sum": a + b, "n": 3}"""
    add = stage(("input:0", "input:1"), ("v0",), "%r = arith.addf %a, %b : f32")
    spec = TensorSpec("extra", "float32", (4,))

    def edit(manifest):
        function = manifest.functions["main"]
        return edit_function(
            manifest,
            inputs=(*function.inputs, spec),
            argument_names=("pair", "scale", "extra"),
            in_tree={
                "kind": "tuple",
                "items": [
                    {"kind": "tuple", "items": [
                        {"kind": "dict", "keys": ["a", "b"], "items": [LEAF, LEAF]}]},
                    {"kind": "dict", "keys": ["scale", "extra"],
                     "items": [{"kind": "const", "value": None}, LEAF]},
                ],
            },
            out_tree={"kind": "dict", "keys": ["sum", "n"],
                      "items": [LEAF, {"kind": "const", "value": 3}]},
        )  # fmt: skip

    return lab.write("nested", {"s": add}, [{"s": "cpu:0"}], ["v0"], edit=edit)


def test_an_argument_left_out_may_be_given_as_its_default(lab, stage, edit_function):
    """As in `forward(self, x0, bias=None, scale=2.0)`, compiled with `x0` alone."""

    def edit(manifest):
        return edit_function(
            manifest,
            argument_names=("x0", "bias", "scale"),
            argument_defaults={"bias": None, "scale": 2.0},
        )

    double = stage(("input:0",), ("v0",), "%r = arith.addf %a, %a : f32")
    path = lab.write("defaults", {"s": double}, [{"s": "cpu:0"}], ["v0"], edit=edit)
    with lemurc.load(path) as session:
        for args, kwargs in [
            ((X,), {}),
            ((X, None), {}),
            ((X, None, 2.0), {}),
            ((X,), {"scale": 2.0, "bias": None}),
        ]:
            np.testing.assert_array_equal(session(*args, **kwargs), 2 * X)
        assert "its default None" in refused(session, X, X).message
        assert refused(session, X, scale=3.0).code == "constant-argument"
        assert refused(session, X, scale=2).code == "constant-argument"
        assert "too many" in refused(session, X, None, 2.0, None).message
        assert "unexpected" in refused(session, X, other=None).message
        assert "twice" in refused(session, X, None, bias=None).message


def test_structures_and_keywords(nested):
    Pair = collections.namedtuple("Pair", "b a")
    with lemurc.load(nested) as session:
        want = {"sum": 3 * X, "n": 3}
        for args, kwargs in [
            (({"a": X, "b": 2 * X},), {"extra": X}),
            (({"b": 2 * X, "a": X},), {"extra": X, "scale": None}),
            ((), {"pair": Pair(b=2 * X, a=X), "extra": X}),
            (({"a": X, "b": 2 * X}, None, X), {}),
        ]:
            got = session(*args, **kwargs)
            assert got["n"] == want["n"]
            np.testing.assert_array_equal(got["sum"], want["sum"])
        assert "scale" in refused(session, {"a": X, "b": X}, scale=2, extra=X).message
        assert "missing ['b']" in refused(session, {"a": X}, extra=X).message
        assert "'extra'" in refused(session, {"a": X, "b": X}).message
        assert "twice" in refused(session, {"a": X, "b": X}, None, X, extra=X).message


def test_strides_and_readonly_inputs(sized):
    big = np.arange(64, dtype=np.float32).reshape(8, 8)
    frozen = big[:, :4].copy()
    frozen.flags.writeable = False
    with lemurc.load(sized) as session:
        np.testing.assert_array_equal(session(big[:, ::2], frozen), big[:, ::2] + frozen)
        np.testing.assert_array_equal(session(big[::-1, :4], frozen), big[::-1, :4] + frozen)


@pytest.mark.parametrize(
    "element, body, values",
    [
        ("bf16", "%r = arith.addf %a, %b : bf16", np.array([1, 2], ml_dtypes.bfloat16)),
        ("i8", "%r = arith.addi %a, %b : i8", np.array([200, 3], np.uint8)),
        ("i1", "%r = arith.xori %a, %b : i1", np.array([True, False])),
        ("i64", "%r = arith.addi %a, %b : i64", np.array([2**62, -5], np.int64)),
    ],
)
def test_other_types(lab, stage, edit_function, element, body, values):
    add = stage(("input:0", "input:1"), ("v0",), body, shape=(2,), element=element)

    def edit(manifest):
        function = manifest.functions["main"]
        name = values.dtype.name
        return edit_function(
            manifest,
            inputs=tuple(dataclasses.replace(s, dtype=name) for s in function.inputs),
            outputs=tuple(dataclasses.replace(s, dtype=name) for s in function.outputs),
        )

    path = lab.write(f"type-{element}", {"s": add}, [{"s": "cpu:0"}], ["v0"], edit=edit)
    with lemurc.load(path) as session:
        y = session(values, values)
        want = values ^ values if element == "i1" else values + values
        assert y.dtype == values.dtype
        np.testing.assert_array_equal(y, want)


def test_numbers_for_scalars(lab, stage):
    add = stage(("input:0", "input:1"), ("v0",), ADD, shape=())
    path = lab.write("scalars", {"s": add}, [{"s": "cpu:0"}], ["v0"])
    with lemurc.load(path) as session:
        assert session(1.5, 2) == np.float32(3.5)
        assert session(np.float32(1.5), np.array(2, np.float32)).shape == ()


def test_torch_in_torch_out(adder):
    torch = pytest.importorskip("torch")
    with lemurc.load(adder) as session:
        x = torch.arange(4.0, requires_grad=True)
        y = session(x)
        assert isinstance(y, torch.Tensor) and y.tolist() == [0, 2, 4, 6]
        y += 1
        assert session(x).tolist() == [0, 2, 4, 6]
        assert isinstance(session.run_async(x).result(), torch.Tensor)


def test_torch_bfloat16(lab, stage):
    torch = pytest.importorskip("torch")
    add = stage(("input:0", "input:1"), ("v0",), "%r = arith.addf %a, %b : bf16", element="bf16")
    path = lab.write("torch-bf16", {"s": add}, [{"s": "cpu:0"}], ["v0"])
    with lemurc.load(path) as session:
        x = torch.arange(4).to(torch.bfloat16)
        y = session(x, x)
        assert y.dtype == torch.bfloat16 and y.tolist() == [0, 2, 4, 6]


def test_dlpack_in_and_out(adder):
    class Foreign:
        def __dlpack__(self, **options):
            return X.__dlpack__(**options)

        def __dlpack_device__(self):
            return X.__dlpack_device__()

    with lemurc.load(adder) as session:
        y = session(Foreign(), outputs="device")
        assert y.shape == (4,) and y.dtype == np.float32
        np.testing.assert_array_equal(np.from_dlpack(y), 2 * X)
        np.testing.assert_array_equal(np.asarray(y), 2 * X)
        again = session(y)
        np.testing.assert_array_equal(again, 3 * X)
        with pytest.raises(lemurc.LemurcError, match="outputs"):
            session(X, outputs="gpu")
    np.testing.assert_array_equal(np.from_dlpack(y), 2 * X)
