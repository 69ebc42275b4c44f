"""How times that were taken become times of work."""

from lemurc.runtime.recorded_work import Piece, bounded


def piece(begin: float, end: float, *waits: int) -> Piece:
    return Piece("stage", "s", 0, "cpu:0", begin, end, None, [], list(waits))


def test_work_begins_when_what_it_waits_for_has_ended() -> None:
    first, second = bounded([piece(0.0, 5.0), piece(1.0, 9.0, 0)])
    assert (first.begin, first.end, second.begin, second.end) == (0.0, 5.0, 5.0, 9.0)


def test_work_begins_when_it_is_queued_at_the_earliest() -> None:
    _, second = bounded([piece(0.0, 1.0), piece(3.0, 4.0, 0)])
    assert second.begin == 3.0


def test_a_time_that_was_taken_late_is_bounded_by_what_came_after() -> None:
    """A thread woke at 9 for what must have ended before 4, when what waited for it had ended."""
    first, second, third = bounded([piece(0.0, 9.0), piece(1.0, 8.0, 0), piece(2.0, 4.0, 1)])
    assert first.end <= second.end <= third.end == 4.0
    assert all(work.begin <= work.end for work in (first, second, third))
