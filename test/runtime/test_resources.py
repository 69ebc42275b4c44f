"""Memory, interruption, and paths between two far devices."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import lemurc
from lemurc.runtime import devices
from lemurc.targets import cpu

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
X = np.arange(4, dtype=np.float32)


def private_kb():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


@pytest.fixture(scope="module")
def heavy(lab, stage):
    """16 MiB of weights and some tenths of a second of work"""
    n = 4 << 20
    body = """%l = math.log %b : f32
        %q = math.exp %a : f32
        %z = math.powf %q, %l : f32
        %r = math.sin %z : f32"""
    return lab.write(
        "heavy", {"s": stage(("input:0",), ("v0",), body, ("w",), shape=(n,))},
        [{"s": "cpu:0"}], ["v0"], weights={"w": np.ones(n, np.float32)},
    )  # fmt: skip


@linux
def test_weights_are_mapped_not_copied(heavy, adder):
    lemurc.load(adder)(X)
    before = private_kb()
    sessions = [lemurc.load(heavy) for _ in range(3)]
    assert private_kb() - before < 8 << 10
    del sessions


STACKS = r"""
import re
from lemurc.runtime import devices
devices.open_device("cpu:0")
lines = open("/proc/self/maps").read().splitlines()
spans = [[int(x, 16) for x in re.match(r"(\w+)-(\w+)", line).groups()] for line in lines]
guarded = [b for a, b in zip(range(len(lines)), range(1, len(lines)))
           if " ---p " in lines[a] and " rw-p " in lines[b] and spans[a][1] == spans[b][0]]
print(sum(spans[b][1] - spans[b][0] == devices.WORKER_STACK for b in guarded))
"""


@linux
def test_workers_have_room_for_what_code_may_put_on_the_stack():
    limit = next(f for f in cpu.TARGET.required if "stack-allocation-limit" in f)
    assert devices.WORKER_STACK >= 4 * int(limit.partition("=")[2])
    ran = subprocess.run([sys.executable, "-c", STACKS], capture_output=True, text=True)
    assert int(ran.stdout) >= 1, ran.stderr


@linux
def test_calls_leave_nothing_behind(adder):
    with lemurc.load(adder) as session:
        for _ in range(500):
            session(X)
        before = private_kb()
        for _ in range(5000):
            session(X)
        assert private_kb() - before < 1 << 10


@linux
def test_an_interrupt_ends_a_call_and_spares_the_session(heavy):
    x = np.zeros(4 << 20, np.float32)
    with lemurc.load(heavy) as session:
        want = session(x)
        timer = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            for _ in range(100):
                session(x)
        timer.join()
        np.testing.assert_array_equal(session(x), want)


def test_other_threads_run_during_a_call(heavy):
    x = np.zeros(4 << 20, np.float32)
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    with lemurc.load(heavy) as session:
        session(x)
        thread = threading.Thread(target=tick)
        thread.start()
        start = time.monotonic()
        session(x)
        end = time.monotonic()
        done.set()
        thread.join()
    during = sum(start < t < end for t in ticks)
    assert during > (end - start) * 1000 / 20


@pytest.mark.vulkan
def test_between_two_far_devices(lab, stage, vulkan, monkeypatch):
    entry = devices._query("vulkan")[0][0]
    monkeypatch.setitem(devices._found, "vulkan", ([entry, entry], ""))
    add = "%r = arith.addf %a, %b : f32"
    stages = {
        "a": stage(("input:0",), ("v0",), add, ("w",)),
        "b": stage(("v0", "input:0"), ("v1",), add),
        "c": stage(("v1", "v0"), ("v2",), add),
    }
    path = lab.write(
        "far", stages, [{"a": "vulkan:0", "b": "vulkan:1", "c": "vulkan:0"}], ["v2"],
        weights={"w": X}, targets=("vulkan",),
    )  # fmt: skip
    with lemurc.load(path) as session:
        assert session.devices == ("vulkan:0", "vulkan:1")
        for k in range(5):
            x = X + k
            np.testing.assert_array_equal(session(x), 3 * x + 2 * X)
        y = session(X, outputs="device")
        np.testing.assert_array_equal(np.asarray(y), 5 * X)
        np.testing.assert_array_equal(session(y), 17 * X)


@pytest.mark.vulkan
def test_dynamic_shapes_on_a_far_device(lab, stage, vulkan):
    from lemurc.manifest import SymbolicDim

    add = "%r = arith.addf %a, %b : f32"
    shape = (SymbolicDim("n", 0, 100), 3)
    stages = {
        "a": stage(("input:0", "input:1"), ("v0",), add, shape=shape),
        "b": stage(("v0", "input:1"), ("v1",), add, shape=shape),
    }
    plan = {"a": "vulkan:0", "b": "cpu:0"}
    path = lab.write("far-dynamic", stages, [plan], ["v1", "v0"], targets=("cpu", "vulkan"))
    with lemurc.load(path) as session:
        with pytest.raises(lemurc.LemurcError) as caught:  # a limit of IREE's Vulkan driver
            session(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32))
        assert caught.value.code == "empty-tensor"
        for n in (1, 7, 100, 7):
            x = np.random.default_rng(n).standard_normal((n, 3)).astype(np.float32)
            y, first = session(x, 2 * x)
            np.testing.assert_array_equal(first, x + 2 * x)
            np.testing.assert_array_equal(y, x + 2 * x + 2 * x)
