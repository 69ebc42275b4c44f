"""`session.stream`: order, read-ahead, overlap, and what happens when something goes wrong."""

import threading
import time

import numpy as np
import pytest

import lemurc
from lemurc.errors import DeviceError, InputError, UsageError
from lemurc.manifest import Plan
from lemurc.runtime.stream import automatic_depth
from lemurc.system_file import DeviceDescription, LinkDescription, SystemDescription

N = 1 << 14
BODY = """%l = math.sin %a : f32
        %r = math.exp %l : f32"""


def inputs(count):
    return [np.full(N, k, np.float32) for k in range(count)]


def reference(x):
    for _ in range(4):
        x = np.exp(np.sin(x))
    return x


def slow_links(devices, latency):
    names = [f"cpu:{k}" for k in range(devices)]
    links = tuple(LinkDescription(a, b, latency) for a in names for b in names if a != b)
    return SystemDescription(tuple(DeviceDescription(name, "cpu") for name in names), links)


@pytest.fixture(scope="module")
def pipeline(lab, stage):
    """Four stages on two devices; a second plan on one."""
    stages = {
        f"s{k}": stage((f"v{k - 1}" if k else "input:0",), (f"v{k}",), BODY, shape=(N,))
        for k in range(4)
    }
    two = {name: f"cpu:{k // 2}" for k, name in enumerate(stages)}
    return lab.write("pipeline", stages, [two, dict.fromkeys(stages, "cpu:0")], ["v3"])


@pytest.fixture(params=["real", "simulated"])
def session(request, pipeline):
    system = slow_links(2, 1e-3) if request.param == "simulated" else None
    with lemurc.load(pipeline, simulate=system) as session:
        yield session


@pytest.mark.parametrize("depth", ["auto", 1, 2, 7])
def test_results_come_in_order(session, depth):
    xs = inputs(9)
    got = list(session.stream(((x,) for x in xs), depth=depth))
    assert len(got) == 9
    for x, y in zip(xs, got, strict=True):
        np.testing.assert_allclose(y, reference(x), rtol=1e-5)


def test_requests_are_tuples_or_dicts(session):
    [x] = inputs(1)
    first, second = session.stream([(x,), {"x0": x}])
    np.testing.assert_array_equal(first, second)
    with pytest.raises(UsageError, match="expected a tuple or a dict"):
        next(session.stream([x]))
    with pytest.raises(UsageError, match="the depth of a stream"):
        session.stream([], depth=0)
    with pytest.raises(UsageError, match="no function"):
        session.stream([], function="mian")
    assert list(session.stream([])) == []


def test_no_more_is_read_than_depth(session):
    read = []

    def requests():
        for k, x in enumerate(inputs(8)):
            read.append(k)
            yield (x,)

    results = session.stream(requests(), depth=3)
    assert read == []
    for given in range(1, 6):
        next(results)
        assert len(read) == given + 2
    results.close()
    assert len(read) == 7


def test_arrays_may_be_reused(session):
    buffer = np.empty(N, np.float32)

    def requests():
        for x in inputs(6):
            buffer[:] = x
            yield (buffer,)

    for x, y in zip(inputs(6), session.stream(requests(), depth=4), strict=True):
        np.testing.assert_allclose(y, reference(x), rtol=1e-5)


def test_a_bad_request_is_raised_in_its_place(session):
    good = inputs(3)
    requests = [(good[0],), (good[1],), (np.zeros(3, np.float32),), (good[2],)]
    results = session.stream(requests, depth=4)
    for x in good[:2]:
        np.testing.assert_allclose(next(results), reference(x), rtol=1e-5)
    with pytest.raises(InputError):
        next(results)
    with pytest.raises(StopIteration):
        next(results)
    np.testing.assert_allclose(session(good[0]), reference(good[0]), rtol=1e-5)


def test_an_exception_of_the_iterable_is_raised_in_its_place(session):
    def requests():
        yield (inputs(1)[0],)
        raise KeyError("gone")

    results = session.stream(requests(), depth=4)
    next(results)
    with pytest.raises(KeyError, match="gone"):
        next(results)


def test_leaving_the_loop_ends_what_is_in_flight(pipeline):
    with lemurc.load(pipeline, simulate=slow_links(2, 0.02)) as session:
        for _ in session.stream((x,) for x in inputs(100)):
            break
        # idle devices: a call takes what it takes alone
        begin = time.perf_counter()
        session(inputs(1)[0])
        assert time.perf_counter() - begin < 0.08


def test_devices_work_on_several_requests(pipeline):
    with lemurc.load(pipeline, simulate=slow_links(2, 0.02)) as session:
        x = inputs(1)[0]
        session(x)
        begin = time.perf_counter()
        for _ in range(10):
            session(x)
        alone = time.perf_counter() - begin
        begin = time.perf_counter()
        list(session.stream(((x,) for _ in range(10)), depth=5))
        assert time.perf_counter() - begin < 0.7 * alone


def test_a_stream_goes_on_without_a_device_that_fails(pipeline):
    first, second = slow_links(2, 0.0).devices
    full = SystemDescription((first, DeviceDescription("cpu:1", "cpu", memory=4 * N)))
    with lemurc.load(pipeline, simulate=full) as session:
        with pytest.warns(lemurc.runtime.placement.LemurcWarning, match="cpu:1"):
            got = list(session.stream(((x,) for x in inputs(6)), depth=4))
        for x, y in zip(inputs(6), got, strict=True):
            np.testing.assert_allclose(y, reference(x), rtol=1e-5)
        assert session.devices == ("cpu:0",)
    with lemurc.load(pipeline, simulate=full, strict=True) as session:
        with pytest.raises(DeviceError, match="cpu:1"):
            list(session.stream((x,) for x in inputs(6)))


def test_a_model_with_state_runs_one_call_at_a_time(counter):
    x = np.arange(4, dtype=np.float32)
    with lemurc.load(counter) as session:
        assert session.stream_depth(depth=8) == 1
        for k, y in enumerate(session.stream(((x,) for _ in range(5)), depth=8), 1):
            np.testing.assert_array_equal(y, k * x)


def test_automatic_depth_follows_the_plan(pipeline, adder):
    with lemurc.load(pipeline) as session:
        assert session.stream_depth() == 5
        assert session.stream_depth(depth=6) == 6
    with lemurc.load(adder) as session:
        assert session.stream_depth() == 2


def test_a_plan_without_devices_still_takes_a_call():
    """All of it on the host; a depth of 0 would end the stream before its first result."""
    assert automatic_depth(Plan((), {"main": ()}, {}), "main") == 1


def test_results_may_stay_on_devices(session):
    xs = inputs(5)
    for x, y in zip(xs, session.stream([(x,) for x in xs], outputs="device"), strict=True):
        np.testing.assert_allclose(y.numpy(), reference(x), rtol=1e-5)


def test_two_streams_of_one_session(session):
    def consume(start, out):
        for y in session.stream((x + start,) for x in inputs(8)):
            out.append(y)

    results = {0: [], 1: []}
    threads = [threading.Thread(target=consume, args=item) for item in results.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for start, got in results.items():
        for x, y in zip(inputs(8), got, strict=True):
            np.testing.assert_allclose(y, reference(x + start), rtol=1e-5)
