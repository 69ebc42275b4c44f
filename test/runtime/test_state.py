"""Session state: kept, saved, copied, and safe from the caller."""

import threading

import numpy as np
import pytest

import lemurc
from lemurc.errors import InputError

X = np.ones(4, np.float32)


def test_it_is_kept_between_calls_and_reset(counter):
    with lemurc.load(counter) as session:
        for k in range(1, 6):
            np.testing.assert_array_equal(session(X), k * X)
        session.reset()
        np.testing.assert_array_equal(session(X), X)
        np.testing.assert_array_equal(lemurc.load(counter)(X), X)


def test_save_and_load(counter):
    with lemurc.load(counter) as session, lemurc.load(counter) as other:
        session(X)
        session(X)
        saved = session.state()
        np.testing.assert_array_equal(saved["total"], 2 * X)
        saved["total"] += 10
        np.testing.assert_array_equal(session.state()["total"], 2 * X)
        other.load_state(saved)
        saved["total"] += 10
        np.testing.assert_array_equal(other(X), 13 * X)


@pytest.mark.parametrize(
    "bad", [{}, {"total": X, "more": X}, {"total": X[:3]}, {"total": X.astype(np.float64)}]
)
def test_loading_other_state_is_refused(counter, bad):
    with lemurc.load(counter) as session:
        session(X)
        with pytest.raises(InputError):
            session.load_state(bad)
        np.testing.assert_array_equal(session(X), 2 * X)


def test_a_copy_goes_its_own_way(counter):
    session = lemurc.load(counter)
    session(X)
    twin = session.copy()
    session(X)
    np.testing.assert_array_equal(twin(X), 2 * X)
    np.testing.assert_array_equal(twin.main(X), 3 * X)
    session.close()
    np.testing.assert_array_equal(twin(X), 4 * X)
    twin.reset()
    np.testing.assert_array_equal(twin(X), X)
    twin.close()


def test_writing_to_a_result_does_not_change_state(counter):
    with lemurc.load(counter) as session:
        session(X)[:] = 100
        np.testing.assert_array_equal(session(X), 2 * X)


def test_calls_are_serialised(counter):
    with lemurc.load(counter) as session:
        seen = []

        def work():
            for _ in range(50):
                seen.append(float(session(X)[0]))

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(seen) == list(range(1, 301))


def test_a_refused_call_changes_nothing(counter):
    with lemurc.load(counter) as session:
        session(X)
        with pytest.raises(InputError):
            session(X[:2])
        np.testing.assert_array_equal(session(X), 2 * X)


ECHO = """module @stage {
  func.func @run(%x: tensor<4xf32>, %s: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    return %x, %s : tensor<4xf32>, tensor<4xf32>
  }
}"""


def test_writing_to_a_result_that_is_the_old_state(lab, stage):
    """IREE answers with the very buffer of the state, which has not changed."""
    echo = stage(("input:0", "state:a"), ("v0", "v1"), "", text=ECHO)
    path = lab.write(
        "echo", {"s": echo}, [{"s": "cpu:0"}], ["v1"],
        weights={"a": np.zeros(4, np.float32)}, state_updates={"a": "v1"},
    )  # fmt: skip
    also = lab.write(
        "echo-read", {"s": echo}, [{"s": "cpu:0"}], ["v1"],
        weights={"a": np.zeros(4, np.float32), "b": np.zeros(4, np.float32)},
        state_updates={"a": "state:a", "b": "v0"},
    )  # fmt: skip
    for each in (path, also):
        with lemurc.load(each) as session:
            session(X)[:] = 100
            assert (session(X) == 0).all()


@pytest.mark.parametrize("aligned", [True, False])
def test_an_input_that_becomes_state_is_copied(lab, stage, aligned):
    n = 1 << 16
    store = np.zeros(n + 17, np.float32)
    start = -(store.ctypes.data // 4) % 16 + (0 if aligned else 1)
    x = store[start : start + n]
    add = stage(("input:0", "state:last"), ("v0",), "%r = arith.addf %a, %b : f32", shape=(n,))
    path = lab.write(
        "last", {"s": add}, [{"s": "cpu:0"}], ["v0", "state:last"],
        weights={"last": np.zeros(n, np.float32)}, state_updates={"last": "input:0"},
    )  # fmt: skip
    with lemurc.load(path) as session:
        x[:] = 1
        session(x)
        x[:] = 5
        total, before = session(x)
        assert (total == 6).all() and (before == 1).all()
        before[:] = 9
        assert (session.state()["last"] == 5).all()


def test_state_that_swaps(lab, stage):
    add = stage(("input:0", "state:a"), ("v0",), "%r = arith.addf %a, %b : f32")
    path = lab.write(
        "swap", {"s": add}, [{"s": "cpu:0"}], ["v0"],
        weights={"a": np.zeros(4, np.float32), "b": np.full(4, 10, np.float32)},
        state_updates={"a": "state:b", "b": "v0"},
    )  # fmt: skip
    with lemurc.load(path) as session:
        a, b = 0, 10
        for _ in range(6):
            assert session(X)[0] == a + 1
            a, b = b, a + 1
        assert session.state()["a"][0] == a and session.state()["b"][0] == b


@pytest.mark.vulkan
def test_state_on_two_devices(lab, stage, vulkan):
    body = "%r = arith.addf %a, %b : f32"
    stages = {
        "a": stage(("input:0", "state:total"), ("v0",), body),
        "b": stage(("v0", "state:total"), ("v1",), body),
    }
    path = lab.write(
        "two", stages, [{"a": "vulkan:0", "b": "cpu:0"}], ["v1"],
        weights={"total": np.zeros(4, np.float32)}, state_updates={"total": "v0"},
        targets=("cpu", "vulkan"),
    )  # fmt: skip
    with lemurc.load(path) as session:
        total = 0
        for _ in range(5):
            assert session(X)[0] == total + 1 + total
            total += 1
        session.load_state({"total": 7 * X})
        assert session(X)[0] == 15
        kept = session(X, outputs="device")
        session(X)
        assert np.asarray(kept)[0] == 17
