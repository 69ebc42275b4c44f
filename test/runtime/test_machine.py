"""What is subtracted from wall time."""

import threading

from lemurc.runtime.machine import ThreadTimes, available_cores, physical_cores


def times(computed: dict[str, float], waited: dict[str, float]) -> ThreadTimes:
    return ThreadTimes(computed, waited)


def test_the_callers_wait_adds_to_that_of_the_slowest_worker() -> None:
    me = str(threading.get_native_id())
    before = times({me: 1.0, "7": 2.0, "8": 2.0}, {me: 0.5, "7": 1.0, "8": 1.0})
    after = times({me: 1.1, "7": 2.2, "8": 2.2}, {me: 0.6, "7": 1.3, "8": 1.2})
    assert abs(after.lost_since(before, 1.0) - 0.4) < 1e-9


def test_what_a_thread_computed_is_not_lost() -> None:
    before = times({"7": 0.0}, {"7": 0.0})
    after = times({"7": 0.8}, {"7": 0.9})
    assert abs(after.lost_since(before, 1.0) - 0.2) < 1e-9


def test_where_the_system_says_nothing_nothing_is_subtracted() -> None:
    assert times({}, {}).lost_since(times({}, {}), 1.0) == 0.0


def test_threads_that_began_meanwhile_count_from_nothing() -> None:
    assert times({"7": 0.1}, {"7": 0.3}).lost_since(times({}, {}), 1.0) == 0.3


def test_cores() -> None:
    assert 1 <= physical_cores() <= available_cores()
