"""Work that was recorded, as a trace that Perfetto and chrome://tracing load.

The format is Chrome's trace events in JSON: a process for each device and one for the host, a
thread for stages and one for transfers, slices ("X"), and arrows ("s" to "f") from what makes
a value to what reads it. Times are microseconds from the first event.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from lemurc.runtime.recorder import HOST_TRACK, Work
from lemurc.tools.table import size

_US = 1e6
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
    events = [_metadata("process_name", pid, 0, name=track) for track, pid in process.items()]
    events += [_metadata("process_sort_index", pid, 0, sort_index=pid) for pid in process.values()]
    names = {
        (process[item.track], lane): name for item, (lane, name) in zip(work, lanes, strict=True)
    }
    names[process[HOST_TRACK], 1] = "calls"
    events += [
        _metadata("thread_name", pid, tid, name=name) for (pid, tid), name in sorted(names.items())
    ]
    for number, call in enumerate(calls):
        where = (process[HOST_TRACK], 1)
        events.append(_slice(f"call {number}", "call", *where, call.begin, call.end, start, {}))
    for item, (lane, _) in zip(work, lanes, strict=True):
        title, args = _described(item, described)
        where = (process[item.track], lane)
        events.append(_slice(title, item.kind, *where, item.begin, item.end, start, args))
    events += _arrows(work, lanes, process, start)
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": dict(about)}


def _lanes(work: Sequence[Work]) -> list[tuple[int, str]]:
    """The thread of each piece and its name; where pieces of one kind overlap, several."""
    free: dict[tuple[str, str, int], float] = {}
    found = []
    kinds = {"stage": (1, "stages"), "transfer": (101, "transfers"), "copy": (101, "transfers")}
    for item in work:
        if item.track == HOST_TRACK:
            found.append((1, "calls"))  # one thread, in whose calls all else is
            continue
        first, name = kinds[item.kind]
        lane = next(n for n in count() if free.get((item.track, name, n), item.begin) <= item.begin)
        free[item.track, name, lane] = item.end
        found.append((first + lane, name if lane == 0 else f"{name} {lane + 1}"))
    return found


def _described(
    item: Work, described: Mapping[str, Mapping[str, Any]]
) -> tuple[str, dict[str, Any]]:
    args: dict[str, Any] = {"call": item.call}
    if item.kind == "queue":
        return f"queue {item.name}", args
    if item.bytes is None:
        more = dict(described.get(item.name, {}))
        return str(more.pop("title", item.name)), args | {"stage": item.name} | more
    seconds = item.end - item.begin
    args |= {"value": item.name, "bytes": item.bytes}
    if seconds > 0:
        args["GB_per_s"] = round(item.bytes / seconds / 1e9, 3)
    return f"{item.name} {size(item.bytes)}", args


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
