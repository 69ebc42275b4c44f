"""Work that was recorded, as a trace that Perfetto and chrome://tracing load.

The format is Chrome's trace events in JSON: a process for each device and one for the host, a
thread for stages and one for transfers, slices ("X"), and arrows ("s" to "f") from what makes
a value to what reads it. Times are microseconds from the first event.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lemurc.runtime.recorded_work import HOST_TRACK, Work
from lemurc.units import size

_US = 1e6
_THREADS = {"calls": 1, "queueing": 1001, "operators": 2001, "stages": 1, "transfers": 1001}
"""The number of the first thread of each name in its process."""
_INSIDE = 1e-3
"""Arrows begin and end this much of a slice inside it: viewers bind them to what encloses them."""


@dataclass(frozen=True)
class CallTime:
    """One call, from its arguments to its results, in seconds of `time.perf_counter`."""

    begin: float
    end: float


Event = dict[str, Any]


def document(
    work: Sequence[Work],
    calls: Sequence[CallTime],
    described: Mapping[str, Mapping[str, Any]],
    about: Mapping[str, Any],
) -> dict[str, Any]:
    """`described` says more of a stage: `title`, and what goes into `args`. `about` is of the
    whole trace."""
    start = min([*(call.begin for call in calls), *(item.begin for item in work)], default=0.0)
    tracks = list(dict.fromkeys([HOST_TRACK, *(item.track for item in work)]))
    process = {track: number for number, track in enumerate(tracks, 1)}
    lanes = _lanes(work)
    beside = _beside([(call.begin, call.end) for call in calls])
    events = [_metadata("process_name", pid, 0, name=track) for track, pid in process.items()]
    events += [_metadata("process_sort_index", pid, 0, sort_index=pid) for pid in process.values()]
    names = {
        (process[item.track], lane): name for item, (lane, name) in zip(work, lanes, strict=True)
    }
    names |= {(process[HOST_TRACK], _THREADS["calls"] + lane): "calls" for lane in beside}
    events += [
        _metadata("thread_name", pid, tid, name=name) for (pid, tid), name in sorted(names.items())
    ]
    for number, (call, lane) in enumerate(zip(calls, beside, strict=True)):
        where = (process[HOST_TRACK], _THREADS["calls"] + lane)
        events.append(_slice(f"call {number}", "call", *where, call.begin, call.end, start, {}))
    for item, (lane, _) in zip(work, lanes, strict=True):
        title, args = _described(item, described)
        where = (process[item.track], lane)
        events.append(_slice(title, item.kind, *where, item.begin, item.end, start, args))
    events += _arrows(work, lanes, process, start)
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": dict(about)}


def _lanes(work: Sequence[Work]) -> list[tuple[int, str]]:
    """The thread of each piece and its name; where pieces of one kind overlap, several."""
    groups: dict[tuple[str, str], list[int]] = {}
    for number, item in enumerate(work):
        groups.setdefault((item.track, _thread(item)), []).append(number)
    found: dict[int, tuple[int, str]] = {}
    for (_, name), numbers in groups.items():
        beside = _beside([(work[number].begin, work[number].end) for number in numbers])
        for number, lane in zip(numbers, beside, strict=True):
            title = name if lane == 0 else f"{name} {lane + 1}"
            found[number] = (_THREADS[name] + lane, title)
    return [found[number] for number in range(len(work))]


def _thread(item: Work) -> str:
    if item.track == HOST_TRACK:
        return "operators" if item.kind == "stage" else "queueing"
    return "stages" if item.kind == "stage" else "transfers"


def _beside(spans: Sequence[tuple[float, float]]) -> list[int]:
    """A lane for each span such that those of one lane do not overlap."""
    free: list[float] = []
    found = [0] * len(spans)
    for number in sorted(range(len(spans)), key=lambda number: spans[number]):
        begin, end = spans[number]
        lane = next((n for n, until in enumerate(free) if until <= begin), len(free))
        free[lane : lane + 1] = [end]
        found[number] = lane
    return found


def _described(
    item: Work, described: Mapping[str, Mapping[str, Any]]
) -> tuple[str, dict[str, Any]]:
    args: dict[str, Any] = {"call": item.call}
    if item.kind == "queue":
        return f"queue {item.name}", args
    if item.kind == "stage":
        more = dict(described.get(item.name, {}))
        return str(more.pop("title", item.name)), args | {"stage": item.name} | more
    seconds, moved = item.end - item.begin, item.bytes or 0
    args |= {"value": item.name, "bytes": moved}
    if seconds > 0:
        args["GB_per_s"] = round(moved / seconds / 1e9, 3)
    return f"{item.name} {size(moved)}", args


def _slice(
    name: str,
    kind: str,
    pid: int,
    tid: int,
    begin: float,
    end: float,
    start: float,
    args: Mapping[str, Any],
) -> Event:
    return {
        "name": name,
        "cat": kind,
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "ts": (begin - start) * _US,
        "dur": (end - begin) * _US,
        "args": dict(args),
    }


def _arrows(
    work: Sequence[Work],
    lanes: Sequence[tuple[int, str]],
    process: Mapping[str, int],
    start: float,
) -> list[Event]:
    events: list[Event] = []
    for reader, item in enumerate(work):
        for maker in item.needs:
            source = work[maker]
            inside = (source.end - source.begin) * _INSIDE
            ends = [
                ("s", maker, source.end - inside, {}),
                ("f", reader, item.begin + (item.end - item.begin) * _INSIDE, {"bp": "e"}),
            ]
            number = len(events) // 2
            for phase, at, when, more in ends:
                events.append(
                    {
                        "name": "value",
                        "cat": "data",
                        "ph": phase,
                        "id": number,
                        "pid": process[work[at].track],
                        "tid": lanes[at][0],
                        "ts": (when - start) * _US,
                        **more,
                    }
                )
    return events


def _metadata(kind: str, pid: int, tid: int, **args: Any) -> Event:
    return {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": args}
