"""Devices that are not here: their answers, speed, links, memory, and that they are told."""

import dataclasses
import gc
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import lemurc
from lemurc.errors import DeviceError, LemurcError
from lemurc.runtime.machine import available_cores
from lemurc.runtime.placement import LemurcWarning
from lemurc.system_file import (
    DeviceDescription,
    LinkDescription,
    SystemDescription,
    system_from,
    transfer_seconds,
    write_system,
)

N = 1 << 16
BODY = """%l = math.sin %a : f32
        %q = math.exp %l : f32
        %r = math.sin %q : f32"""
X = np.linspace(0, 3, N, dtype=np.float32)


def system(*slowdowns, latency=0.0, memory=None):
    devices = tuple(
        DeviceDescription(f"cpu:{k}", "cpu", slowdown=s, memory=memory)
        for k, s in enumerate(slowdowns)
    )
    names = [device.name for device in devices]
    links = tuple(
        LinkDescription(a, b, latency, {"1": 1e12}) for a in names for b in names if a != b
    )
    return SystemDescription(devices, links)


@pytest.fixture(scope="module")
def chain(lab, stage):
    """`chain(n)`: eight stages, one after another, dealt out to n devices"""

    def build(n):
        stages = {
            f"s{k}": stage((f"v{k - 1}" if k else "input:0",), (f"v{k}",), BODY, shape=(N,))
            for k in range(8)
        }
        plan = {name: f"cpu:{k % n}" for k, name in enumerate(stages)}
        return lab.write(f"chain{n}", stages, [plan, dict.fromkeys(stages, "cpu:0")], ["v7"])

    return build


def reference(x):
    for _ in range(8):
        x = np.sin(np.exp(np.sin(x)))
    return x


def seconds(*sessions, calls=9):
    """Of the quickest call of each, in turns: the least disturbed by others on the machine."""
    times = [[] for _ in sessions]
    for _ in range(calls):
        for session, mine in zip(sessions, times, strict=True):
            start = time.perf_counter()
            session(X)
            mine.append(time.perf_counter() - start)
    return [min(mine) for mine in times]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8])
def test_unequal_devices_give_the_answer(chain, n):
    unequal = system(*(1.0 + k for k in range(n)), latency=1e-5)
    with lemurc.load(chain(n), simulate=unequal, strict=True) as session:
        assert session.devices == tuple(f"cpu:{k}" for k in range(n))
        np.testing.assert_allclose(session(X), reference(X), rtol=1e-4)
        calls = [session.run_async(X) for _ in range(6)]
        for call in calls:
            np.testing.assert_allclose(call.result(), reference(X), rtol=1e-4)


def test_a_slow_device_is_as_slow_as_described(chain):
    one = chain(1)
    fast = lemurc.load(one, simulate=system(4.0))  # so that others on the machine do not show
    slow = lemurc.load(one, simulate=system(16.0))
    quick, long = seconds(fast, slow, calls=5)
    assert 3.2 < long / quick < 4.8


@pytest.mark.alone
def test_a_transfer_takes_the_time_of_its_link(chain):
    two = chain(2)
    near = lemurc.load(two, simulate=system(1.0, 1.0))
    far = lemurc.load(two, simulate=system(1.0, 1.0, latency=0.01))
    # seven between the stages, and the way of the result from cpu:1 to the host
    quick, long = seconds(near, far)
    assert 0.07 < long - quick < 0.11


@pytest.mark.alone
def test_transfers_overlap_with_computing(chain):
    """Two calls at once: while one is on its way the other computes."""
    slow_link = system(1.0, 1.0, latency=0.01)
    with lemurc.load(chain(2), simulate=slow_link) as session:
        [alone] = seconds(session)
        start = time.perf_counter()
        for call in [session.run_async(X) for _ in range(4)]:
            call.result()
        assert time.perf_counter() - start < 0.7 * 4 * alone


def test_more_than_the_cores_is_stretched(chain):
    many = system(*[1.0] * 8)
    with lemurc.load(chain(8), simulate=many) as session:
        stretch = max(1.0, 8 / available_cores())
        assert all(row.times_slower == pytest.approx(stretch) for row in session.simulated)
        if stretch > 1:
            assert f"all times stretched {stretch:.3g}x" in session.placement_line()


def test_threads_are_speed(chain):
    described = SystemDescription(
        (
            DeviceDescription("cpu:0", "cpu", threads=4),
            DeviceDescription("cpu:1", "cpu", threads=1),
        )
    )
    with lemurc.load(chain(2), simulate=described) as session:
        fast, slow = session.simulated
        assert slow.times_slower == pytest.approx(4 * fast.times_slower)
        assert fast.times_slower >= 1


def test_it_is_told(chain):
    with lemurc.load(chain(2), simulate=system(1.0, 4.0)) as session:
        assert session.placement_line().endswith(
            "simulated: cpu:0 at full speed, cpu:1 4x slower"
            if available_cores() > 1
            else "all times stretched 1.25x"
        )
    with lemurc.load(chain(2)) as session:
        assert session.simulated == ()
        assert "simulated" not in session.placement_line()


def test_peak_memory_is_counted_and_limited(chain):
    one = chain(1)
    with lemurc.load(one, simulate=system(1.0)) as session:
        session(X)
        [row] = session.simulated
    assert row.peak_bytes >= 2 * X.nbytes
    enough = system(1.0, memory=row.peak_bytes)
    with lemurc.load(one, simulate=enough, strict=True) as session:
        np.testing.assert_allclose(session(X), reference(X), rtol=1e-4)
    short = system(1.0, memory=row.peak_bytes - 1)
    with lemurc.load(one, simulate=short, strict=True) as session:
        for _ in range(2):  # the second time it is known before
            with pytest.raises(DeviceError, match="live at once are more than") as caught:
                session(X)
            assert (caught.value.code, caught.value.where) == ("out-of-memory", "cpu:0")


def test_memory_is_free_after_the_call(chain):
    with lemurc.load(chain(2), simulate=system(1.0, 1.0)) as session:
        session(X)
        once = session.simulated
        for _ in range(3):
            session(X)
        assert session.simulated == once


def test_the_next_plan_runs_when_a_device_is_full(chain):
    first, second = system(1.0, 1.0).devices
    full = SystemDescription((first, DeviceDescription("cpu:1", "cpu", memory=X.nbytes)))
    with lemurc.load(chain(2), simulate=full) as session:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            np.testing.assert_allclose(session(X), reference(X), rtol=1e-4)
        assert session.devices == ("cpu:0",)
        assert any("cpu:1" in str(warning.message) for warning in caught)


def test_weights_that_do_not_fit(lab, stage):
    weights = {"w": np.ones(N, np.float32)}
    body = "%r = arith.addf %a, %b : f32"
    path = lab.write(
        "heavy_sim", {"s": stage(("input:0",), ("v0",), body, ("w",), shape=(N,))},
        [{"s": "cpu:0"}], ["v0"], weights=weights,
    )  # fmt: skip
    with pytest.raises(DeviceError, match="load its weights") as caught:
        lemurc.load(path, simulate=system(1.0, memory=4 * N - 1), strict=True)
    assert caught.value.code == "out-of-memory"
    with lemurc.load(path, simulate=system(1.0)) as session:
        assert session.simulated[0].weight_bytes == 4 * N


def test_state_lives_on_a_simulated_device(counter):
    x = np.arange(4, dtype=np.float32)
    with lemurc.load(counter, simulate=system(2.0)) as session:
        for k in range(1, 4):
            np.testing.assert_array_equal(session(x), k * x)
        session.reset()
        np.testing.assert_array_equal(session(x, outputs="device").numpy(), x)


def test_code_for_the_cpu_simulates_any_device(lab, stage):
    one = {"s": stage(("input:0",), ("v0",), "%r = arith.addf %a, %a : f32")}
    path = lab.write("as_cuda", one, [{"s": "cuda:0"}, {"s": "cpu:0"}], ["v0"])
    gpu = system_from({"devices": [{"name": "big", "known": "H100"}]}, "test")
    x = np.arange(4, dtype=np.float32)
    with lemurc.load(path, simulate=gpu) as session:
        assert session.devices == ("big",)
        np.testing.assert_array_equal(session(x), 2 * x)


def test_no_code_for_the_cpu_is_an_error(chain):
    gpu = SystemDescription((DeviceDescription("cuda:0", "cuda"),))
    with pytest.raises(DeviceError, match="no cpu device is left for cpu:0") as caught:
        lemurc.load(chain(1), simulate=gpu)
    assert caught.value.code == "cannot-simulate"


def test_a_file_and_a_choice_of_devices(chain, tmp_path):
    path = tmp_path / "system.json"
    write_system(path, system(1.0, 2.0))
    with lemurc.load(chain(2), simulate=path, devices=["cpu:1"]) as session:
        assert session.devices == ("cpu:1",)


def test_links_by_size_and_the_way_back():
    described = SystemDescription(
        (), (LinkDescription("a", "b", 1e-3, {"1000": 1e6, "100000": 1e8}),)
    )
    assert transfer_seconds(described, "a", "b", 500) == pytest.approx(1e-3 + 5e-4)
    assert transfer_seconds(described, "b", "a", 200_000) == pytest.approx(1e-3 + 2e-3)
    assert transfer_seconds(described, "a", "c", 4000) == pytest.approx(5e-5 + 1e-6)


@pytest.mark.parametrize(
    ("device", "code"),
    [
        (DeviceDescription("cpu:0", "cpu", slowdown=0.0), "bad-system"),
        (DeviceDescription("cpu:0", "cpu", slowdown=float("nan")), "bad-system"),
        (DeviceDescription("cpu:0", "cpu", slowdown=1e-5), "cannot-simulate"),
        (DeviceDescription("cpu:0", "cpu", threads=50_000), "cannot-simulate"),
    ],
)
def test_what_is_no_device_of_this_world(chain, device, code):
    with pytest.raises(LemurcError) as caught:
        lemurc.load(chain(1), simulate=SystemDescription((device,)))
    assert caught.value.code == code and caught.value.hint


def test_a_stream_has_as_many_calls_in_flight_as_memory_allows(chain):
    """The first device is short; results lie on the second."""
    with lemurc.load(chain(3), simulate=system(1, 1, 1)) as session:
        session(X)
        one = session.simulated[0].peak_bytes
        for _ in session.stream([(X,)] * 8, depth=6):
            pass
        several = session.simulated[0].peak_bytes
    limit = one + X.nbytes // 2
    assert several > limit
    short, *others = system(1, 1, 1).devices
    limited = SystemDescription((dataclasses.replace(short, memory=limit), *others))
    with lemurc.load(chain(3), simulate=limited, strict=True) as session:
        with pytest.warns(LemurcWarning, match=r"more than its .* at once from now on"):
            for k, answer in enumerate(session.stream(((X + k,) for k in range(8)), depth=6)):
                np.testing.assert_allclose(answer, reference(X + k), rtol=1e-4)
        assert session.devices == ("cpu:0", "cpu:1", "cpu:2") and not session.failed


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_devices_serve_again_and_count_anew(chain):
    """IREE's devices stay open: each new one would cost three files."""

    def files():
        return len(list(Path("/proc/self/fd").iterdir()))

    kept, peaks, opened = [], [], 0
    for number in range(12):
        if number == 4:
            opened = files()
        with lemurc.load(chain(4), simulate=system(1, 2, 3, 4)) as session:
            answer = session(X)
            peaks.append([device.peak_bytes for device in session.simulated])
            if number in (1, 2):
                kept.append(answer)  # its device cannot be counted anew
        del session
        gc.collect()
    assert files() <= opened
    assert all(peak == peaks[0] for peak in peaks), peaks
    for answer in kept:
        np.testing.assert_allclose(answer, reference(X), rtol=1e-4)
