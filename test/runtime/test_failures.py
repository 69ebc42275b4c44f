"""Devices that fail, fill up, hang or crawl while they run: the right result, or one clear error.

Every test has a minute: one that hangs is one that failed.
"""

import asyncio
import dataclasses
import gc
import importlib.util
import json
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import lemurc
from lemurc.errors import ArtifactError, BudgetError, DeviceError, LemurcError, UsageError
from lemurc.runtime import async_calls, plugin_devices
from lemurc.runtime.placement import LemurcWarning
from lemurc.runtime.timeline import Timeline
from lemurc.system_file import DeviceDescription, LinkDescription, SystemDescription
from lemurc.tools import cli

_spec = importlib.util.spec_from_file_location("failures", Path(__file__).with_name("failures.py"))
assert _spec is not None and _spec.loader is not None
failures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(failures)

LOST, FULL = failures.LOST, failures.FULL
X = np.arange(1, 5, dtype=np.float32)
W = np.arange(4, dtype=np.float32)
Y = (X + W) ** 2 + X
SECONDS = 0.5
"""A timeout that a call which does not hang keeps, on a machine that is busy."""


@pytest.fixture(autouse=True)
def _a_minute() -> Iterator[None]:
    def end(number: int, frame: FrameType | None) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, 60)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with failures.installed(tmp_path_factory.mktemp("faulty")) as module:
        yield module


@pytest.fixture
def faults(device: Any) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        broken = failures.Faults(patch, device)
        yield broken
        broken.release()
        broken.mend()


@pytest.fixture(scope="module")
def artifact(lab: Any, stage: Any, device: Any) -> Callable[..., Path]:
    """`artifact(plan, ...)`: (x + w)**2 + x in stages a, b, c on devices like "cpu:0 faulty:0
    cpu:0"; with `state` w is a total, of all x before, and in place on request. The package has
    the devices of the first plan."""

    def make(*plans: str, state: bool = False, in_place: bool = False) -> Path:
        device.count = len({name for name in plans[0].split() if name.startswith("faulty")})
        add = "%r = arith.addf %a, %b : f32"
        if state:
            first = stage(("input:0", "state:total"), ("v0",), add, numpy="x[0] + x[1]")
        else:
            first = stage(("input:0",), ("v0",), add, ("w",), numpy="x[0] + w[0]")
        stages = {
            "a": first,
            "b": stage(("v0",), ("v1",), "%r = arith.mulf %a, %a : f32", numpy="x[0] * x[0]"),
            "c": stage(("v1", "input:0"), ("v2",), add, numpy="x[0] + x[1]"),
        }

        def edit(manifest: Any) -> Any:
            first = dataclasses.replace(manifest.stages["a"], written=(1,), owned=(0,))
            return dataclasses.replace(manifest, stages={**manifest.stages, "a": first})

        kinds = {name.partition(":")[0] for plan in plans for name in plan.split()}
        name = f"{'-'.join(plans)}{state}{in_place}".replace(":", "").replace(" ", "")
        path: Path = lab.write(
            name,
            stages,
            [dict(zip("abc", plan.split(), strict=True)) for plan in plans],
            ["v2"],
            weights={"total" if state else "w": np.zeros_like(W) if state else W},
            state_updates={"total": "v0"} if state else {},
            targets=sorted(kinds),
            **({"edit": edit} if in_place else {}),
        )
        return path

    return make


CPU = "cpu:0 cpu:0 cpu:0"
MIXED = ("cpu:0 faulty:0 cpu:0", CPU)
TWO = ("cpu:0 cpu:1 cpu:0", CPU)
FIRST, LAST = ("cpu:1 cpu:0 cpu:1", CPU), ("cpu:0 cpu:0 cpu:1", CPU)
THREE = ("faulty:0 faulty:1 faulty:2",)
ALONE = ("faulty:0 faulty:0 faulty:0",)
BUS = RuntimeError("bus error")


@dataclass(frozen=True)
class Case:
    """`breaks` is called between two calls. Then the call is answered on the devices `left`, or
    ends with the error `code`."""

    name: str
    plans: tuple[str, ...]
    breaks: Callable[[Any], None]
    left: tuple[str, ...] = ()
    code: str = ""
    says: str = ""
    strict: bool = False
    spare: int = 0
    """How many devices the package has that the plan does not use."""


def goes_on(
    name: str, plans: tuple[str, ...], breaks: Any, left: str, says: str = "", **more: Any
) -> Case:
    return Case(name, plans, breaks, left=tuple(left.split()), says=says, **more)


def ends(name: str, plans: tuple[str, ...], breaks: Any, code: str, says: str, **more: Any) -> Case:
    return Case(name, plans, breaks, code=code, says=says, **more)


def each(*breaks: Callable[[Any], None]) -> Callable[[Any], None]:
    def all_of_them(faults: Any) -> None:
        for one in breaks:
            one(faults)

    return all_of_them


CASES = [
    *(
        goes_on(f"lost-in-{step}", MIXED, lambda f, step=step: f.raises(0, step, BUS), "cpu:0")
        for step in ("upload", "submit", "wait", "download")
    ),
    *(
        ends(
            f"strict-lost-in-{step}", MIXED, lambda f, step=step: f.raises(0, step, BUS),
            "device-failed", "on faulty:0, a device of faulty 1.0: RuntimeError: bus error",
            strict=True,
        )
        for step in ("upload", "submit", "wait", "download")
    ),
    *(
        goes_on(
            f"full-in-{step}", MIXED,
            lambda f, step=step: f.raises(0, step, MemoryError("9 GB")), "cpu:0", "9 GB",
        )
        for step in ("upload", "submit", "wait")
    ),
    ends(
        "strict-full", MIXED, lambda f: f.raises(0, "upload", MemoryError("9 GB")),
        "out-of-memory", "faulty:0: MemoryError: 9 GB", strict=True,
    ),
    goes_on("queued-work-lost", TWO, lambda f: f.loses("cpu:1", "b"), "cpu:0", "cpu:1: .*LOST"),
    goes_on("first-device-lost", FIRST, lambda f: f.loses("cpu:1", "a"), "cpu:0"),
    goes_on("last-device-lost", LAST, lambda f: f.loses("cpu:1", "c"), "cpu:0"),
    goes_on(
        "lost-of-three-of-iree", ("cpu:0 cpu:1 cpu:2", TWO[0], CPU),
        lambda f: f.loses("cpu:1", "b"), "cpu:0", "on cpu:1",
    ),
    ends(
        "strict-queued-work-lost", TWO, lambda f: f.loses("cpu:1", "b"),
        "device-lost", "VK_ERROR_DEVICE_LOST", strict=True,
    ),
    goes_on("queue-refuses", TWO, lambda f: f.refuses("cpu:1", "b", LOST), "cpu:0", "DEVICE_LOST"),
    goes_on("queue-full", TWO, lambda f: f.refuses("cpu:1", "b", FULL), "cpu:0", "failed to alloc"),
    goes_on("queued-work-full", TWO, lambda f: f.loses("cpu:1", "b", FULL), "cpu:0", "68719476736"),
    ends(
        "strict-queue-full", TWO, lambda f: f.refuses("cpu:1", "b", FULL),
        "out-of-memory", "cpu:1: .*failed to allocate", strict=True,
    ),
    goes_on(
        "lost-once", TWO, lambda f: f.loses("cpu:1", "b", times=1), "cpu:0 cpu:1",
        "the call was made again",
    ),
    goes_on(
        "no-plan-but-other-devices", THREE, lambda f: f.raises(1, "submit", BUS),
        "faulty:0 faulty:2", "running on faulty:0, faulty:2 instead",
    ),
    goes_on(
        "no-plan-but-the-other-of-iree", TWO[:1], lambda f: f.refuses("cpu:1", "b", FULL), "cpu:0",
        "running on cpu:0 instead",
    ),
    goes_on(
        "to-another-of-its-kind", MIXED, lambda f: f.raises(0, "wait", BUS), "cpu:0 faulty:1",
        "running on cpu:0, faulty:1 instead", spare=1,
    ),
    goes_on(
        "two-of-three", THREE,
        each(lambda f: f.raises(0, "upload", BUS), lambda f: f.raises(2, "wait", BUS)), "faulty:1",
    ),
    goes_on(
        "no-code-is-loaded-on-the-next", THREE,
        each(lambda f: f.raises(1, "submit", BUS), lambda f: f.raises(0, "load", BUS)), "faulty:2",
        "cannot load stage a on faulty:0",
    ),
    ends(
        "all-of-three", THREE,
        each(*(lambda f, n=n: f.raises(n, "submit", BUS) for n in range(3))),
        "device-failed", "on faulty:2",
    ),
    ends(
        "the-only-one", ALONE, lambda f: f.raises(0, "submit", BUS),
        "device-failed", "run stage a on faulty:0",
    ),
    ends(
        "the-only-one-full", (CPU,), lambda f: f.refuses("cpu:0", "c", FULL),
        "out-of-memory", "cannot run on cpu:0",
    ),
]  # fmt: skip


def test_there_are_as_many_injections_as_the_project_promises() -> None:
    """Each case below breaks another device, step or way: at least 24 of them, of every kind."""
    names = [case.name for case in CASES] + [f"hang-{hang.name}" for hang in HANGS]
    names += [f"hang-loading-{step}" for step in LOADING] + [f"damaged-{part}" for part in DAMAGED]
    unlike = {name.removeprefix("strict-") for name in names}
    assert len(names) == len(set(names)) and len(unlike) >= 24
    for kind in ("lost", "full", "hang", "damaged"):
        assert any(kind in name for name in unlike)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_device_fails_in_a_call(case: Case, artifact: Any, faults: Any, device: Any) -> None:
    path = artifact(*case.plans)
    device.count += case.spare
    with lemurc.load(path, strict=case.strict) as session:
        before = session.devices
        np.testing.assert_array_equal(session(X), Y)
        case.breaks(faults)
        if case.left:
            with pytest.warns(LemurcWarning, match=case.says):
                np.testing.assert_array_equal(session(X), Y)
            assert sorted(session.devices) == sorted(case.left)
            for number in range(3):  # and on from here, quietly
                np.testing.assert_array_equal(
                    session(X + number), (X + number + W) ** 2 + X + number
                )
            if set(before) != set(case.left):
                assert f"without {', '.join(session.failed)}, which" in session.placement_line()
            assert set(session.failed) <= set(before) - set(case.left)
        else:
            for _ in range(2):
                with pytest.raises(LemurcError, match=case.says) as caught:
                    if case.name == "all-of-three" and not session.failed:
                        with pytest.warns(LemurcWarning):
                            session(X)
                    else:
                        session(X)
                assert caught.value.code == case.code and caught.value.hint
            faults.mend()  # a device that comes back is good again where nothing took its place
            np.testing.assert_array_equal(session(X), Y)
        assert faults.met


# Hanging


@dataclass(frozen=True)
class Hang:
    name: str
    plans: tuple[str, ...]
    hangs: Callable[[Any], None]
    device: str
    left: tuple[str, ...] = ("cpu:0",)


HANGS = [
    *(
        Hang(f"in-{step}", MIXED, lambda f, step=step: f.hangs(0, step), "faulty:0")
        for step in ("upload", "submit", "wait", "download")
    ),
    Hang("queued", TWO, lambda f: f.sticks("cpu:1", "b"), "cpu:1"),
    Hang("queued-first", FIRST, lambda f: f.sticks("cpu:1", "a"), "cpu:1"),
    Hang("queued-last", LAST, lambda f: f.sticks("cpu:1", "c"), "cpu:1"),
    Hang("alone", THREE, lambda f: f.hangs(1, "wait"), "faulty:1", ("faulty:0", "faulty:2")),
]  # fmt: skip


@pytest.mark.parametrize("hang", HANGS, ids=lambda hang: hang.name)
@pytest.mark.parametrize("strict", [False, True], ids=["alternates", "strict"])
def test_a_device_hangs(hang: Hang, strict: bool, artifact: Any, faults: Any) -> None:
    with lemurc.load(artifact(*hang.plans), strict=strict, timeout=SECONDS) as session:
        np.testing.assert_array_equal(session(X), Y)
        hang.hangs(faults)
        begin = time.monotonic()
        with pytest.raises(
            BudgetError, match=f"longer than 0.5 s, and waits for {hang.device}"
        ) as caught:
            session(X)
        assert caught.value.code == "call-timeout" and caught.value.where == hang.device
        assert time.monotonic() - begin < 10 * SECONDS
        if strict:
            for _ in range(2):
                with pytest.raises(DeviceError, match=f"{hang.device} has not answered") as hung:
                    session(X)
                assert hung.value.code == "device-hung"
        else:
            with pytest.warns(LemurcWarning, match=f"{hang.device} has not answered .* instead"):
                np.testing.assert_array_equal(session(X), Y)
            assert session.devices == hang.left
        begin = time.monotonic()
    assert time.monotonic() - begin < 5, "close does not wait for a device that hangs"


LOADING = ("open", "upload", "load")
AT_FIRST = ("faulty:0 cpu:0 cpu:0", CPU)


@pytest.mark.parametrize("step", LOADING)
def test_a_device_hangs_while_it_loads(step: str, artifact: Any, faults: Any) -> None:
    plugin_devices.forget()  # or it is open already
    faults.hangs(0, step)
    path = artifact(*AT_FIRST)
    said = "faulty:0: it has not answered within 0.5 s"
    with pytest.raises(DeviceError, match=said) as caught:
        lemurc.load(path, strict=True, load_timeout=SECONDS)
    assert (caught.value.code, caught.value.where) == ("device-hung", "faulty:0")
    with pytest.warns(LemurcWarning, match=f"{said}; running on cpu:0 instead"):
        session = lemurc.load(path, load_timeout=SECONDS)
    with session:
        assert list(session.failed) == ["faulty:0"]
        np.testing.assert_array_equal(session(X), Y)
    with pytest.raises(DeviceError, match=said):
        lemurc.load(artifact(*ALONE), load_timeout=SECONDS)
    faults.release()
    faults.mend()
    plugin_devices.forget()
    with lemurc.load(path, load_timeout=SECONDS) as session:  # and in time it is a device again
        assert session.devices == ("faulty:0", "cpu:0")


def test_a_driver_hangs_when_it_is_asked_for_devices(artifact: Any, faults: Any) -> None:
    faults.hangs(0, "devices")
    said = "cannot look for devices on faulty: it has not answered within 0.5 s"
    with pytest.warns(LemurcWarning, match=f"{said}; running on cpu:0 instead"):
        session = lemurc.load(artifact(*MIXED), load_timeout=SECONDS)
    with session:
        np.testing.assert_array_equal(session(X), Y)
    for path, strict in ((artifact(*MIXED), True), (artifact(*ALONE), False)):
        with pytest.raises(DeviceError, match=said):
            lemurc.load(path, strict=strict, load_timeout=SECONDS)


def test_what_takes_over_hangs_while_it_loads(artifact: Any, faults: Any) -> None:
    path = artifact(*THREE)
    with lemurc.load(path, load_timeout=SECONDS) as session:
        np.testing.assert_array_equal(session(X), Y)
        faults.raises(1, "submit", BUS)
        faults.hangs(0, "load")
        with pytest.warns(LemurcWarning, match="load stage . on faulty:0: it has not answered"):
            np.testing.assert_array_equal(session(X), Y)
        assert session.devices == ("faulty:2",)


def test_the_only_device_hangs_and_comes_back(artifact: Any, faults: Any) -> None:
    with lemurc.load(artifact(*ALONE), timeout=SECONDS) as session:
        session(X)
        faults.hangs(0, "wait")
        with pytest.raises(BudgetError, match="waits for faulty:0"):
            session(X)
        threads = threading.active_count()
        for _ in range(3):
            with pytest.raises(DeviceError, match="faulty:0 has not answered"):
                session(X)
        assert threading.active_count() == threads, "no call more is sent after the first"
        faults.release()
        np.testing.assert_array_equal(session(X), Y)


def test_a_stream_ends_where_a_device_hangs(artifact: Any, faults: Any) -> None:
    with lemurc.load(artifact(*TWO), timeout=SECONDS) as session:
        results = session.stream(((X,) for _ in range(20)), depth=3)
        for _ in range(2):
            np.testing.assert_array_equal(next(results), Y)
        faults.sticks("cpu:1", "b")
        with pytest.raises(BudgetError) as caught:
            for y in results:
                np.testing.assert_array_equal(y, Y)
        assert caught.value.code == "call-timeout"
        with pytest.warns(LemurcWarning, match="cpu:1 has not answered"):
            np.testing.assert_array_equal(list(session.stream([(X,), (X,)])), [Y, Y])


def test_an_interrupt_ends_a_call_with_a_timeout(artifact: Any, faults: Any) -> None:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with lemurc.load(artifact(*ALONE), timeout=30) as session:
        session(X)
        faults.hangs(0, "wait")
        before = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            session(X)
        signal.signal(signal.SIGALRM, before)
        faults.mend()
        np.testing.assert_array_equal(session(X), Y)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), "2", True])
def test_a_timeout_is_a_number_of_seconds(artifact: Any, seconds: Any) -> None:
    with pytest.raises(UsageError) as caught:
        lemurc.load(artifact(CPU), timeout=seconds)
    assert caught.value.code == "bad-timeout"
    with pytest.raises(UsageError):
        lemurc.load(artifact(CPU), load_timeout=seconds)


# Slowness


def slow(slowdown: float, latency: float = 0.0, memory: int | None = None) -> SystemDescription:
    """cpu:0, and cpu:1 that is slower and further away."""
    devices = (
        DeviceDescription("cpu:0", "cpu"),
        DeviceDescription("cpu:1", "cpu", slowdown=slowdown, memory=memory),
    )
    links = (LinkDescription("cpu:0", "cpu:1", latency, {"1": 1e9}),)
    return SystemDescription(devices, links)


def test_a_slow_device_is_no_failure(artifact: Any) -> None:
    system = slow(50.0, 0.05)
    with lemurc.load(artifact(*TWO), simulate=system, strict=True, timeout=30) as session:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(session(X), Y)
        assert session.devices == ("cpu:0", "cpu:1") and not session.failed


def test_a_slow_device_past_the_timeout_is_used_on(artifact: Any) -> None:
    with lemurc.load(artifact(*TWO), simulate=slow(1.0, 0.15), timeout=0.1) as session:
        with pytest.raises(BudgetError, match="longer than 0.1 s"):
            session(X)
        session.timeout = 30
        np.testing.assert_array_equal(session(X), Y)
        assert session.devices == ("cpu:0", "cpu:1") and not session.failed


@pytest.mark.parametrize("plans", [TWO, TWO[:1]], ids=["stored", "no-stored-plan"])
def test_a_simulated_device_fills_up_in_a_step(plans: tuple[str, ...], artifact: Any) -> None:
    system = slow(2.0, memory=8)
    with lemurc.load(artifact(*plans), simulate=system) as session:
        with pytest.warns(LemurcWarning, match="live at once are more than its 8 B"):
            np.testing.assert_array_equal(session(X), Y)
        assert session.devices == ("cpu:0",)
    with lemurc.load(artifact(*plans), simulate=system, strict=True) as session:
        with pytest.raises(DeviceError, match="live at once are more than its 8 B"):
            session(X)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the address space")
def test_the_host_is_out_of_memory(lab: Any, stage: Any) -> None:
    """No fault of ours: the operating system refuses the memory of the result."""
    import resource

    n = 1 << 25
    big = stage(("input:0",), ("v0",), "%r = arith.addf %a, %a : f32", shape=(n,))
    path = lab.write("big", {"s": big}, [{"s": "cpu:0"}], ["v0"])
    x = np.ones(n, np.float32)
    with lemurc.load(path) as session:
        small = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(
            resource.RLIMIT_AS, (pages * resource.getpagesize() + (n << 1), small[1])
        )
        try:
            with pytest.raises(DeviceError) as caught:
                session(x)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, small)
        assert (caught.value.code, caught.value.where) == ("out-of-memory", "cpu:0")
        assert (session(x)[:: 1 << 20] == 2).all()


# State


def totals(session: Any, calls: int, total: np.ndarray) -> np.ndarray:
    """Calls of a model with state, each checked; the total after them."""
    for _ in range(calls):
        total = total + X
        np.testing.assert_array_equal(session(X), total**2 + X)
    return total


ZERO = np.zeros(4, np.float32)
STATEFUL = ("faulty:0 cpu:0 cpu:0", CPU)


def test_state_moves_from_a_device_that_is_full(artifact: Any, faults: Any) -> None:
    with lemurc.load(artifact(*STATEFUL, state=True)) as session:
        total = totals(session, 3, ZERO)
        faults.raises(0, "submit", MemoryError("9 GB"))
        with pytest.warns(LemurcWarning, match="9 GB"):
            total = totals(session, 1, total)
        totals(session, 2, total)
        assert session.devices == ("cpu:0",)


@pytest.mark.parametrize("strict", [False, True], ids=["alternates", "strict"])
def test_state_is_lost_with_its_device(strict: bool, artifact: Any, faults: Any) -> None:
    with lemurc.load(artifact(*STATEFUL, state=True), strict=strict) as session:
        saved = session.state()
        totals(session, 3, ZERO)
        faults.raises(0, "submit", BUS)
        faults.raises(0, "download", BUS)
        if strict:
            with pytest.raises(DeviceError, match="bus error"):
                session(X)
        else:
            with pytest.warns(LemurcWarning, match="bus error"):
                with pytest.raises(DeviceError, match="was lost with faulty:0") as caught:
                    session(X)
            assert caught.value.code == "state-lost"
        with pytest.raises(DeviceError, match="was lost with faulty:0"):
            session.state()
        if strict:
            faults.mend()
        session.load_state(saved)
        totals(session, 2, ZERO)


def test_state_is_lost_with_a_device_that_hangs(artifact: Any, faults: Any) -> None:
    with lemurc.load(artifact(*STATEFUL, state=True), timeout=SECONDS) as session:
        totals(session, 2, ZERO)
        faults.hangs(0, "submit")
        with pytest.raises(BudgetError, match="waits for faulty:0"):
            session(X)
        with pytest.warns(LemurcWarning, match="faulty:0 has not answered"):
            with pytest.raises(DeviceError, match="was lost with faulty:0"):
                session(X)
        session.reset()
        totals(session, 2, ZERO)
        assert session.devices == ("cpu:0",)


@pytest.mark.parametrize("at", ["a", "b", "c"])
def test_a_call_begins_again_from_the_state_before(at: str, artifact: Any, faults: Any) -> None:
    plans = (" ".join("cpu:1" if stage == at else "cpu:0" for stage in "abc"), CPU)
    with lemurc.load(artifact(*plans, state=True)) as session:
        total = totals(session, 2, ZERO)
        faults.refuses("cpu:1", at, FULL)
        with pytest.warns(LemurcWarning, match="failed to allocate"):
            total = totals(session, 1, total)
        totals(session, 2, total)


@pytest.mark.parametrize("recover", ["reset", "load_state"])
def test_state_that_was_updated_in_place(recover: str, artifact: Any, faults: Any) -> None:
    with lemurc.load(artifact(*MIXED, state=True, in_place=True)) as session:
        total = totals(session, 3, ZERO)
        saved = session.state()
        total = totals(session, 1, total)
        faults.raises(0, "submit", BUS)
        with pytest.warns(LemurcWarning, match="bus error"):
            with pytest.raises(DeviceError, match="lost in a call that failed") as caught:
                session(X)
        assert caught.value.code == "state-lost" and "load_state" in caught.value.hint
        with pytest.raises(DeviceError, match="lost in a call that failed"):
            session(X)
        if recover == "reset":
            session.reset()
            totals(session, 2, ZERO)
        else:
            session.load_state(saved)
            totals(session, 2, 3 * X)


def test_state_in_place_where_it_is_not_clear_who_failed(artifact: Any, faults: Any) -> None:
    with lemurc.load(artifact(*TWO, state=True, in_place=True)) as session:
        totals(session, 3, ZERO)
        faults.loses("cpu:1", "b")
        with pytest.raises(DeviceError, match="lost in a call that failed .*DEVICE_LOST") as caught:
            session(X)
        assert caught.value.code == "state-lost"
        session.reset()
        with pytest.warns(LemurcWarning, match="DEVICE_LOST"):
            total = totals(session, 1, ZERO)
        totals(session, 3, total)
        assert session.devices == ("cpu:0",)


def test_a_timeout_while_state_is_updated_in_place_says_so(artifact: Any, faults: Any) -> None:
    path = artifact(*MIXED, state=True, in_place=True)
    with lemurc.load(path, timeout=SECONDS) as session:
        totals(session, 3, ZERO)
        faults.hangs(0, "submit")
        with pytest.raises(BudgetError, match="state of the session, which is lost") as caught:
            session(X)
        assert "reset()" in caught.value.hint
        faults.release()
        with pytest.raises(DeviceError, match="lost in a call that failed or was given up"):
            session(X)
        session.reset()
        totals(session, 3, ZERO)


@pytest.mark.parametrize("step", ["submit", "wait", "download"])
def test_a_call_that_was_given_up_takes_no_effect_later(
    step: str, artifact: Any, faults: Any
) -> None:
    path = artifact("cpu:0 cpu:0 faulty:0", CPU, state=True)
    with lemurc.load(path, timeout=SECONDS) as session:
        total = totals(session, 2, ZERO)
        faults.hangs(0, step)
        with pytest.raises(BudgetError):
            session(X)
        faults.release()
        faults.mend()
        time.sleep(SECONDS)
        np.testing.assert_array_equal(session.state()["total"], total)
        totals(session, 2, total)
        assert not session.failed


@pytest.mark.vulkan
def test_an_interrupt_while_state_is_brought_to_a_device(
    lab: Any, stage: Any, vulkan: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = stage(("input:0", "state:total"), ("v0",), "%r = arith.addf %a, %b : f32")
    path = lab.write(
        "far-total", {"s": add}, [{"s": "vulkan:0"}], ["v0"], weights={"total": ZERO},
        state_updates={"total": "v0"}, targets=("vulkan",),
    )  # fmt: skip

    def interrupted(line: Timeline) -> None:
        raise KeyboardInterrupt

    with lemurc.load(path) as session:
        with monkeypatch.context() as patch:
            patch.setattr(Timeline, "wait", interrupted)
            with pytest.raises(KeyboardInterrupt):
                session(X)
        assert not session._state.residents["total"].views, "the copy may not have arrived"
        np.testing.assert_array_equal(session(X), X)


# Tensors on devices, and calls at once


def test_a_tensor_on_a_lost_device(artifact: Any, faults: Any) -> None:
    with lemurc.load(artifact("cpu:0 cpu:0 faulty:0", CPU)) as session:
        y = session(X, outputs="device")
        assert y.device.name == "faulty:0"
        faults.raises(0, "submit", BUS)
        with pytest.warns(LemurcWarning, match="bus error"):  # its memory can still be read
            np.testing.assert_array_equal(session(y), (Y + W) ** 2 + Y)
        faults.raises(0, "download", BUS)
        for reads in (lambda: session(y), y.numpy):
            with pytest.raises(DeviceError, match="is lost with faulty:0") as caught:
                reads()
            assert caught.value.code == "tensor-lost"
        np.testing.assert_array_equal(session(X), Y)


def test_many_calls_at_once_lose_a_device(artifact: Any, faults: Any) -> None:
    with lemurc.load(artifact(*MIXED)) as session:
        calls = [session.run_async(X + k) for k in range(10)]
        faults.raises(0, "wait", BUS)
        calls += [session.run_async(X + k) for k in range(10, 30)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LemurcWarning)
            for k, call in enumerate(calls):
                np.testing.assert_array_equal(call.result(), (X + k + W) ** 2 + X + k)
        assert session.devices == ("cpu:0",)


@pytest.mark.parametrize("plans", [TWO, MIXED], ids=["queued", "plugin"])
def test_a_stream_goes_on(plans: tuple[str, ...], artifact: Any, faults: Any) -> None:
    with lemurc.load(artifact(*plans)) as session:
        results = session.stream(((X + k,) for k in range(20)), depth=4)
        got = [next(results) for _ in range(3)]
        faults.loses("cpu:1", "b")
        faults.raises(0, "submit", BUS)
        with pytest.warns(LemurcWarning):
            got += list(results)
        assert session.devices == ("cpu:0",)
        for k, y in enumerate(got):
            np.testing.assert_array_equal(y, (X + k + W) ** 2 + X + k)


def test_a_copy_finds_out_by_itself(artifact: Any, faults: Any) -> None:
    with lemurc.load(artifact(*MIXED, state=True)) as session, session.copy() as twin:
        totals(session, 1, ZERO)
        faults.raises(0, "wait", BUS)
        for one, total in ((session, X), (twin, ZERO)):
            with pytest.warns(LemurcWarning, match="bus error"):
                totals(one, 1, total)
            assert one.devices == ("cpu:0",)


# Cancelling and closing


def test_a_running_call_is_cancelled(artifact: Any, faults: Any) -> None:
    with lemurc.load(artifact(*ALONE, state=True)) as session:
        total = totals(session, 2, ZERO)
        faults.hangs(0, "wait")
        call, queued, cancelled = (session.run_async(X) for _ in range(3))
        while not faults.met:
            time.sleep(0.01)
        assert call.cancel() and cancelled.cancel() and call.cancelled()
        for one in (call, cancelled):
            with pytest.raises(CancelledError):
                one.result(1)
        faults.mend()
        faults.release()
        total = total + X
        np.testing.assert_array_equal(queued.result(), total**2 + X)
        assert not queued.cancel()
        totals(session, 1, total)


def test_a_task_of_asyncio_is_cancelled(artifact: Any, faults: Any) -> None:
    async def serve(session: Any) -> np.ndarray:
        faults.hangs(0, "wait")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(session.run_async(X)), SECONDS)
        faults.mend()
        answer: np.ndarray = await asyncio.wrap_future(session.run_async(X))
        return answer

    with lemurc.load(artifact(*ALONE)) as session:
        np.testing.assert_array_equal(asyncio.run(serve(session)), Y)


def test_a_cancelled_call_does_not_keep_others(artifact: Any, faults: Any) -> None:
    with lemurc.load(artifact(*THREE)) as session:
        faults.hangs(0, "submit")
        stuck = [session.run_async(X) for _ in range(4)]
        last = session.run_async(X)
        while faults.met < 4:
            time.sleep(0.01)
        faults.mend()
        assert not last.done()
        stuck[0].cancel()
        np.testing.assert_array_equal(last.result(20), Y)
        faults.release()
        for call in stuck[1:]:
            np.testing.assert_array_equal(call.result(20), Y)


def test_closing_finishes_what_is_queued(artifact: Any) -> None:
    with lemurc.load(artifact(CPU, state=True)) as session:
        calls = [session.run_async(X) for _ in range(20)]
    for k, call in enumerate(calls, 1):
        np.testing.assert_array_equal(call.result(0), (k * X) ** 2 + X)


@pytest.mark.parametrize("state", [False, True])
def test_closing_leaves_a_call_that_hangs_behind(
    state: bool, artifact: Any, faults: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_calls, "CLOSING_SECONDS", 0.2)
    session = lemurc.load(artifact(*ALONE, state=state))
    faults.hangs(0, "wait")
    call = session.run_async(X)
    while not faults.met:
        time.sleep(0.01)
    with pytest.warns(LemurcWarning, match="closed while a call on faulty:0 did not end"):
        session.close()
    with pytest.raises(CancelledError):
        call.result(1)
    with pytest.raises(UsageError, match="closed"):
        session(X)


# Damage


DAMAGED = ("modules/b.cpu.vmfb", "weights", "end", "manifest")


@pytest.mark.parametrize("part", DAMAGED)
def test_a_damaged_artifact_is_refused(part: str, artifact: Any, tmp_path: Path) -> None:
    whole = artifact(*TWO).read_bytes()
    damaged = bytearray(whole)
    if part == "end":
        del damaged[-100:]
    else:
        name = {"weights": "weights.irpa", "manifest": "manifest.json"}.get(part, part).encode()
        at = whole.index(name) + len(name) + 200
        damaged[at] ^= 1
    path = tmp_path / "damaged.lemur"
    path.write_bytes(damaged)
    with pytest.raises(ArtifactError) as caught:
        lemurc.load(path)
    assert caught.value.code == "corrupt-artifact" and caught.value.exit_status == 5


@pytest.mark.parametrize("strict", [False, True], ids=["alternates", "strict"])
def test_code_that_a_device_refuses(strict: bool, artifact: Any, faults: Any) -> None:
    faults.raises(0, "load", ValueError("for another chip"))
    with pytest.raises(ArtifactError, match="for another chip") as caught:
        lemurc.load(artifact(*MIXED), strict=strict)
    assert caught.value.code == "incompatible-module"


# On the command line


def test_the_command_line_tells_what_ran_instead(
    artifact: Any, faults: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(artifact(*MIXED))
    np.save(tmp_path / "x.npy", X)
    call = ["run", path, "--input", f"@{tmp_path / 'x.npy'}"]
    faults.raises(0, "submit", BUS)
    assert run(*call) == 0
    out, err = capsys.readouterr()
    assert "; without faulty:0, which failed" in out and "placement: cpu:0 3/3 ops" in out
    assert "RuntimeError: bus error; running on cpu:0 instead" in err and "Traceback" not in err
    assert run(*call, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (
        list(document["failed"]) == ["faulty:0"] and "bus error" in document["failed"]["faulty:0"]
    )
    assert run(*call, "--strict") == DeviceError.exit_status
    assert "error: cannot run stage b on faulty:0" in capsys.readouterr().err
    faults.mend()
    faults.hangs(0, "submit")
    assert run(*call, "--timeout", "300ms") == BudgetError.exit_status
    assert "longer than 0.3 s, and waits for faulty:0" in capsys.readouterr().err
    faults.mend()
    faults.hangs(0, "load")
    assert run(*call, "--load-timeout", "300ms") == 0
    assert "not answered within 0.3 s; running on cpu:0 instead" in capsys.readouterr().err


def run(*words: str) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("always", LemurcWarning)
        return cli.run(list(words))


# What is left behind


def measured() -> tuple[int, int, int]:
    """Threads, open files, and private memory in KiB."""
    status = Path("/proc/self/status").read_text()
    anonymous = next(line for line in status.splitlines() if line.startswith("RssAnon"))
    files = len(list(Path("/proc/self/fd").iterdir()))
    return threading.active_count(), files, int(anonymous.split()[1])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_failures_leave_nothing_behind(artifact: Any, device: Any) -> None:
    mixed, two, alone = artifact(*MIXED), artifact(*TWO), artifact(*ALONE)

    def lost(faults: Any) -> None:
        with lemurc.load(mixed) as session:
            faults.raises(0, "wait", BUS)
            np.testing.assert_array_equal(session(X), Y)

    def full(faults: Any) -> None:
        with lemurc.load(alone) as session:
            faults.raises(0, "submit", MemoryError())
            for _ in range(3):
                with pytest.raises(DeviceError):
                    session(X)

    def queued(faults: Any) -> None:
        with lemurc.load(two) as session:
            faults.loses("cpu:1", "b")
            np.testing.assert_array_equal(session(X), Y)

    def hung(faults: Any) -> None:
        with lemurc.load(mixed, timeout=0.05) as session:
            faults.hangs(0, "wait")
            with pytest.raises(BudgetError):
                session(X)
            session.timeout = 30.0
            faults.release()
            np.testing.assert_array_equal(session(X), Y)

    def stuck(faults: Any) -> None:
        with lemurc.load(two, timeout=0.05) as session:
            faults.sticks("cpu:1", "b")
            with pytest.raises(BudgetError):
                session(X)
            faults.release()

    def cancelled(faults: Any) -> None:
        with lemurc.load(alone) as session:
            faults.hangs(0, "submit")
            calls = [session.run_async(X) for _ in range(3)]
            for call in calls:
                call.cancel()
            faults.release()

    def all_of_them() -> None:
        for fails in (lost, full, queued, hung, stuck, cancelled):
            with pytest.MonkeyPatch.context() as patch:
                faults = failures.Faults(patch, device)
                fails(faults)
                faults.release()
                faults.mend()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LemurcWarning)
        for _ in range(5):
            all_of_them()
        gc.collect()
        threads, files, memory = measured()
        for _ in range(20):
            all_of_them()
        deadline = time.monotonic() + 10
        while measured()[0] > threads and time.monotonic() < deadline:
            time.sleep(0.05)  # for threads of calls that were given up to end
        gc.collect()
        after = measured()
    assert after[0] <= threads
    assert after[1] <= files
    assert after[2] - memory < 4 << 10


HANGS_AT_EXIT = """
import sys, time
sys.path[:0] = {path!r}
import numpy as np, faulty_device, lemurc
from lemurc.errors import BudgetError
faulty_device.faults[0, {step!r}] = lambda: time.sleep(1000)
session = lemurc.load({artifact!r}, timeout=0.2)
try:
    session(np.ones(4, np.float32))
except BudgetError as error:
    print(error.code, error.where)
"""


@pytest.mark.parametrize("step", ["submit", "wait"])
def test_the_process_ends_though_a_device_hangs(step: str, artifact: Any, device: Any) -> None:
    path = str(artifact(*ALONE))
    code = HANGS_AT_EXIT.format(path=[str(Path(device.__file__).parent)], artifact=path, step=step)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=40)
    assert (ran.returncode, ran.stdout) == (0, "call-timeout faulty:0\n"), ran.stderr


STUCK_AT_EXIT = """
import sys, numpy as np, lemurc
from iree.runtime import HalFence
from lemurc.errors import BudgetError
from lemurc.runtime.executor import StageExecutor
submit = StageExecutor.submit
def stick(self, inputs, wait, signal):
    never = self.device.hal.create_semaphore(0)
    return submit(self, inputs, HalFence.join([wait, HalFence.create_at(never, 1)]), signal)
StageExecutor.submit = stick
session = lemurc.load({artifact!r}, timeout=0.2)
for _ in range(4):
    try:
        session.copy()(np.ones(4, np.float32))
    except BudgetError as error:
        print(error.code, error.where)
"""


CRAWLS_AT_EXIT = """
import numpy as np, lemurc
from lemurc.errors import BudgetError
from lemurc.system_file import DeviceDescription, LinkDescription, SystemDescription
devices = tuple(DeviceDescription(name, "cpu") for name in ("cpu:0", "cpu:1"))
system = SystemDescription(devices, (LinkDescription("cpu:0", "cpu:1", 1000.0, {{"1": 1e9}}),))
with lemurc.load({artifact!r}, simulate=system, timeout=0.2) as session:
    try:
        session(np.ones(4, np.float32))
    except BudgetError as error:
        print(error.code, error.where)
"""


def test_the_process_ends_though_a_simulated_link_crawls(artifact: Any) -> None:
    code = CRAWLS_AT_EXIT.format(artifact=str(artifact(*TWO)))
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=40)
    assert (ran.returncode, ran.stdout) == (0, "call-timeout cpu:1\n"), ran.stderr


def test_the_process_ends_though_a_queue_is_stuck(artifact: Any) -> None:
    code = STUCK_AT_EXIT.format(artifact=str(artifact("cpu:0 cpu:0 cpu:1")))
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=40)
    assert (ran.returncode, ran.stdout) == (0, "call-timeout cpu:0\n" * 4), ran.stderr
