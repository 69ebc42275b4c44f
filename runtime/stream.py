"""A stream of requests: several calls in flight, results in order.

    for y in session.stream((x,) for x in inputs): ...

Calls are issued one after another by the thread that asks for results; their work is queued
on the devices in that order, and each has timelines and buffers of its own, so that every
device of a plan works on another request. A request is read when there is room for it among
the `depth` that are in flight, so that a slow consumer slows the reading. What stands in the
way of a request is raised where its result would be, once all before it were given; then, or
when nobody asks any more, what is in flight is waited for and no more is read.
"""

import contextlib
import itertools
import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from lemurc.errors import LemurcError, UsageError
from lemurc.manifest import HOST, Plan
from lemurc.runtime.devices import OpenDevice

_MOST_IN_FLIGHT = 4
"""For each device: beyond it, calls only hold memory."""

Begin = Callable[[Any, "InFlight"], "Begun"]


@dataclass(frozen=True)
class Begun:
    """A call in flight. `result` waits for it and raises what went wrong; `wait` only waits."""

    result: Callable[[], Any]
    wait: Callable[[], None]


class InFlight:
    """Calls of a stream whose results are still to be given, in order; at most `depth`."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.calls: deque[Begun] = deque()

    def make_room(self) -> tuple[bool, int]:
        """For a call that had no memory beside these: wait until they are done, and have fewer
        at once from now on. Whether there were any, and how many may be where that is new."""
        if not self.calls:
            return False, 0
        self.wait()
        before, self.depth = self.depth, (min(self.depth, len(self.calls) + 1) + 1) // 2
        return True, self.depth if self.depth < before else 0

    def wait(self) -> None:
        for call in self.calls:
            with contextlib.suppress(LemurcError):
                call.wait()


def in_order(requests: Iterable[Any], begin: Begin, depth: int) -> Generator[Any, None, None]:
    """The result of each request, of which at most `depth` are in flight."""
    flight = InFlight(depth)
    source = iter(requests)
    more = True
    try:
        while True:
            while more and len(flight.calls) < flight.depth:
                begun, more = _next(source, lambda request: begin(request, flight))
                flight.calls.extend(begun)
            if not flight.calls:
                return
            yield flight.calls.popleft().result()
    finally:
        flight.wait()


def _next(source: Iterator[Any], begin: Callable[[Any], Begun]) -> tuple[list[Begun], bool]:
    """The next call, if there is one, and whether there may be another after it."""
    try:
        request = next(source)
    except StopIteration:
        return [], False
    except Exception as error:
        return [_failed(error)], False
    try:
        return [begin(request)], True
    except Exception as error:
        return [_failed(error)], False


def _failed(error: Exception) -> Begun:
    def result() -> Any:
        raise error

    return Begun(result, lambda: None)


def parts_in_flight(devices: Iterable[OpenDevice]) -> int:
    """Enough parts of a call, cut in micro-batches, for each device to have one, and one that
    waits. Vulkan devices take one at a time."""
    targets = [device.target for device in devices]
    return 1 if "vulkan" in targets else sum(target != HOST for target in targets) + 1


def automatic_depth(plan: Plan, function: str) -> int:
    """Enough requests in flight for the busiest device of `plan` to have one at any time.

    As many as begin while one is under way (Little's law: the time of a call over that of its
    busiest device), at least one for each device; one more, since the caller looks at a result
    before asking for the next; and two for each time that a device hands over to another, one
    that waits there behind those that came before and one in its place. Calls cut in
    micro-batches keep all devices busy by themselves: another one begins as one ends.
    """
    if function in plan.micro_batches:
        return 3
    devices = sum(device.target != HOST for device in plan.devices)
    predicted = plan.predicted.get(function)
    busiest = max(predicted.seconds_by_device.values(), default=0.0) if predicted else 0.0
    under_way = math.ceil(predicted.seconds / busiest) if predicted and busiest else devices
    steps = plan.steps.get(function, ())
    handed_over = sum(a.device != b.device for a, b in itertools.pairwise(steps))
    return min(max(devices, under_way) + 1 + 2 * handed_over, _MOST_IN_FLIGHT * max(devices, 1))


def as_arguments(request: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of a call from an item of a stream."""
    if isinstance(request, tuple):
        return request, {}
    if isinstance(request, dict):
        return (), request
    raise UsageError(
        f"an item of the stream is a {type(request).__name__}, expected a tuple or a dict",
        code="bad-request",
        hint="give the arguments of each call as a tuple, (x,) where there is one, "
        "or as a dict of keyword arguments",
    )


def checked_depth(depth: int | str) -> int | None:
    """The depth that was asked for; None is automatic."""
    if depth == "auto":
        return None
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
        raise UsageError(
            f"the depth of a stream is 'auto' or a number above 0, got {depth!r}",
            code="bad-depth",
            hint="leave it out: it follows the plan",
        )
    return depth
