"""Calls: one stage, many stages, threads, lifetimes."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import lemurc
from lemurc.errors import UsageError

SCALE = "%r = arith.mulf %a, %b : f32"
ADD = "%r = arith.addf %a, %b : f32"
X = np.array([1, 2, 3, 4], np.float32)


def chain(stage):
    """(x + w) * w - x, over three stages"""
    return {
        "a": stage(("input:0",), ("v0",), ADD, ("w",)),
        "b": stage(("v0",), ("v1",), SCALE, ("w",)),
        "c": stage(("v1", "input:0"), ("v2",), "%r = arith.subf %a, %b : f32"),
    }


def diamond(stage):
    return {
        "top": stage(("input:0",), ("v0",), ADD, ("w",)),
        "left": stage(("v0",), ("v1",), SCALE, ("w",)),
        "right": stage(("v0",), ("v2",), ADD, ("w",)),
        "join": stage(("v1", "v2"), ("v3",), "%r = arith.subf %a, %b : f32"),
    }


W = np.arange(1, 5, dtype=np.float32)


def test_one_stage_with_a_weight(adder):
    with lemurc.load(adder) as session:
        y = session(X)
        assert y.dtype == np.float32
        np.testing.assert_array_equal(y, X + np.arange(4))
        np.testing.assert_array_equal(session(x0=2 * X), 2 * X + np.arange(4))


@pytest.mark.parametrize("names", [("cpu:0",) * 3, ("cpu:0", "cpu:1", "cpu:0")])
def test_chain_of_three(lab, stage, names):
    plan = dict(zip("abc", names, strict=True))
    path = lab.write("chain" + names[1][-1], chain(stage), [plan], ["v2"], weights={"w": W})
    with lemurc.load(path) as session:
        for k in range(20):
            np.testing.assert_array_equal(session(X + k), (X + k + W) * W - (X + k))


def test_diamond_over_four_logical_cpus(lab, stage):
    plan = {"top": "cpu:0", "left": "cpu:1", "right": "cpu:2", "join": "cpu:3"}
    path = lab.write("diamond", diamond(stage), [plan], ["v3", "v0"], weights={"w": W})
    with lemurc.load(path) as session:
        assert session.devices == ("cpu:0", "cpu:1", "cpu:2", "cpu:3")
        for k in range(200):
            x = X + k
            y, top = session(x)
            np.testing.assert_array_equal(y, (x + W) * W - (x + W + W))
            np.testing.assert_array_equal(top, x + W)


@pytest.mark.vulkan
@pytest.mark.parametrize(
    "names", [("cpu:0", "vulkan:0", "cpu:0"), ("vulkan:0", "cpu:0", "vulkan:0"), ("vulkan:0",) * 3]
)
def test_chain_over_cpu_and_vulkan(lab, stage, names, vulkan):
    plan = dict(zip("abc", names, strict=True))
    path = lab.write(
        "mixed" + "".join(n[0] for n in names), chain(stage), [plan], ["v2", "v1", "v0"],
        weights={"w": W}, targets=("cpu", "vulkan"),
    )  # fmt: skip
    with lemurc.load(path) as session:
        kept = []
        for k in range(10):
            x = X + k
            kept.append(session(x))
        for k, (y, middle, first) in enumerate(kept):
            x = X + k
            np.testing.assert_array_equal(y, (x + W) * W - x)
            np.testing.assert_array_equal(middle, (x + W) * W)
            np.testing.assert_array_equal(first, x + W)


def test_dynamic_and_empty_shapes(lab, stage):
    from lemurc.manifest import SymbolicDim

    shape = (SymbolicDim("n", 0, 100), 3)
    add = stage(("input:0", "input:1"), ("v0",), ADD, shape=shape)
    path = lab.write("dynamic", {"s": add}, [{"s": "cpu:0"}], ["v0"])
    with lemurc.load(path) as session:
        for n in (1, 7, 0, 100):
            x = np.random.default_rng(n).standard_normal((n, 3)).astype(np.float32)
            np.testing.assert_array_equal(session(x, 2 * x), x + 2 * x)


def test_calls_from_many_threads(lab, stage):
    plan = {"top": "cpu:0", "left": "cpu:1", "right": "cpu:0", "join": "cpu:1"}
    path = lab.write("threads", diamond(stage), [plan], ["v3"], weights={"w": W})
    wrong = []
    with lemurc.load(path) as session:

        def work(seed):
            x = X + seed
            for _ in range(100):
                if not np.array_equal(session(x), (x + W) * W - (x + W + W)):
                    wrong.append(seed)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_results_outlive_the_session_and_inputs_stay_as_they_are(adder):
    session = lemurc.load(adder)
    x = X.copy()
    results = [session(x) for _ in range(50)]
    session.close()
    del session
    for y in results:
        y += 0
        np.testing.assert_array_equal(y, X + np.arange(4))
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize("path", [None, "", 3])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(UsageError) as caught:
        lemurc.load(path)
    assert caught.value.code == "no-artifact-path"
    assert repr(path) in caught.value.message


def test_a_closed_session_says_what_to_do(adder):
    with lemurc.load(adder) as session:
        pass
    with pytest.raises(UsageError) as caught:
        session(X)
    assert caught.value.code == "session-closed"
    assert "load" in caught.value.hint


def test_views_of_results_keep_their_memory(lab, stage):
    """Only the view is kept, as in `logits = session(x)[-1]`."""
    double = stage(("input:0",), ("v0",), "%r = arith.addf %a, %a : f32", shape=(4, 8))
    path = lab.write("views", {"s": double}, [{"s": "cpu:0"}], ["v0"])
    with lemurc.load(path) as session:
        rows = [session(np.full((4, 8), k, np.float32))[-1].view(np.uint32) for k in range(100)]
        others = [session(np.full((4, 8), -1, np.float32)) for _ in range(100)]
    assert len(others) == 100
    for k, row in enumerate(rows):
        np.testing.assert_array_equal(row.view(np.float32), 2 * k)


def test_a_large_aligned_input_is_neither_changed_nor_returned(lab, stage):
    """Such an input is used in place, so a result must not be the same memory."""
    n = 1 << 16
    x = aligned(n)
    x[:] = 1
    same = stage(("input:0",), ("v0",), "%r = arith.addf %a, %a : f32", shape=(n,))
    path = lab.write("large", {"s": same}, [{"s": "cpu:0"}], ["v0", "input:0"])
    with lemurc.load(path) as session:
        y, echo = session(x)
    assert not np.shares_memory(echo, x)
    x[:] = 7
    assert (y == 2).all() and (echo == 1).all()


IDENTITY = """module @stage {
  func.func @run(%x: tensor<65536xf32>) -> tensor<65536xf32> { return %x : tensor<65536xf32> }
}"""


def test_a_stage_that_returns_its_input_returns_a_copy(lab, stage):
    """IREE answers with the very buffer it was given."""
    same = stage(("input:0",), ("v0",), "", shape=(65536,), text=IDENTITY)
    path = lab.write("same", {"s": same}, [{"s": "cpu:0"}], ["v0", "v0"])
    x = aligned(65536)
    with lemurc.load(path) as session:
        first, second = session(x)
        assert not np.shares_memory(first, x) and not np.shares_memory(first, second)
        first, second = session(np.ones(65537, np.float32)[1:])
        assert not np.shares_memory(first, second)
        frozen = aligned(65536)
        frozen[:] = 3
        frozen.flags.writeable = False
        assert (session(frozen)[0] == 3).all()


def aligned(n):
    store = np.zeros(n + 16, np.float32)
    start = -(store.ctypes.data // 4) % 16
    return store[start : start + n]


def test_closed_session_says_so(adder):
    session = lemurc.load(adder)
    session.close()
    session.close()
    with pytest.raises(lemurc.LemurcError, match="closed"):
        session(X)


def test_run_async_copies_its_inputs(adder):
    with lemurc.load(adder) as session:
        x = X.copy()
        futures = []
        for k in range(10):
            x[:] = X + k
            futures.append(session.run_async(x))
        for k, future in enumerate(futures):
            np.testing.assert_array_equal(future.result(), X + k + np.arange(4))


def test_unknown_function_and_attribute(adder):
    with lemurc.load(adder) as session:
        with pytest.raises(AttributeError, match="main"):
            _ = session.prefill
        np.testing.assert_array_equal(session.main(X), X + np.arange(4))


def test_running_needs_no_compiler_and_no_torch_and_ends_cleanly(adder):
    code = f"""
import sys, numpy as np, lemurc
session = lemurc.load({str(adder)!r})
y = session(np.ones(4, np.float32))
z = session(np.ones(4, np.float32), outputs="device")
assert y.tolist() == [1, 2, 3, 4]
import gc
from lemurc.runtime import devices
devices._opened.clear()
del session
gc.collect()
assert z.numpy().tolist() == [1, 2, 3, 4]
del z
gc.collect()
assert y.tolist() == [1, 2, 3, 4]
assert not any(m.partition('.')[0] in ('torch', 'torch_mlir') or m.startswith('iree.compiler')
               for m in sys.modules)
"""
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_weight_as_a_result(lab, stage):
    add = stage(("input:0",), ("v0",), ADD, ("w",))
    path = lab.write("param", {"s": add}, [{"s": "cpu:0"}], ["param:w", "v0"], weights={"w": W})
    with lemurc.load(path) as session:
        weight, _ = session(X)
        weight[:] = 0
        np.testing.assert_array_equal(session(X)[0], W)
        np.testing.assert_array_equal(session(X)[1], X + W)
