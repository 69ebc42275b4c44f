"""From operations as they were issued, and times that were taken, to the work of calls."""

from dataclasses import dataclass

from lemurc.runtime.call import Operation, Queued
from lemurc.runtime.clocks import Watcher
from lemurc.runtime.operation_facts import Names, kind_of
from lemurc.runtime.operations import Feed, InvokeHost
from lemurc.runtime.plugin_operations import FeedPlugin, MovePlugin
from lemurc.runtime.timeline import Point, Timeline

HOST_TRACK = "host"


@dataclass(frozen=True)
class Work:
    """Something that took time: on a device, on a simulated link "source -> target" or (`track`
    "host") on the thread of the caller.

    `kind` is "stage", "transfer" between memories, "copy" within one, or "queue", what the host
    does to begin work. `name` is a stage or a value. `needs` are the positions of the work whose
    results it reads. `begin` and `end` are of `time.perf_counter`, in seconds.
    """

    kind: str
    name: str
    track: str
    call: int
    begin: float
    end: float
    bytes: int | None = None
    needs: tuple[int, ...] = ()


@dataclass(frozen=True)
class Issued:
    """An operation as it was issued: `waits` are the points of what it reads, `points` those of
    its own work, `queued` what of it is on no timeline; `ready` are points of the cells it makes.
    """

    operation: Operation
    call: int
    begin: float
    end: float
    waits: tuple[Point | None, ...]
    points: tuple[Point, ...]
    ready: tuple[Point | None, ...]
    bytes: int | None
    queued: tuple[Queued, ...] = ()


def assembled(issued: list[Issued], watchers: dict[Timeline, Watcher], names: Names) -> list[Work]:
    """The work of all calls, in the order in which it was issued."""
    found: list[Piece] = []
    at: dict[Point, int] = {}
    made: dict[tuple[int, int], int] = {}
    for item in issued:
        if item.queued:
            _add_queued(item, found, made, names)
            continue
        needs = [made[item.call, c] for c in item.operation.reads if (item.call, c) in made]
        waits = [at[point] for point in item.waits if point in at]
        ends = {point: watchers[point[0]].end(point[1]) for point in item.points}
        if any(end is None for end in ends.values()):
            continue  # the device failed, so it never ended
        common = (names.of(item.operation), item.call)
        kind = kind_of(item.operation)
        if ends:
            found.append(Piece("queue", *common, HOST_TRACK, item.begin, item.end, None, [], []))
        elif isinstance(item.operation, (Feed, FeedPlugin, InvokeHost, MovePlugin)):
            waited = isinstance(item.operation, (InvokeHost, MovePlugin))
            waits = [*waits, *needs] if waited else []
            found.append(
                Piece(kind, *common, HOST_TRACK, item.begin, item.end, item.bytes, needs, waits)
            )
        else:  # the value is there already, under another name
            made.update({(item.call, cell): at for cell in item.operation.makes for at in needs})
            continue
        for point in sorted(ends, key=lambda point: ends[point] or 0.0):
            line, value = point
            earlier = [at[line, value - 1]] if (line, value - 1) in at else []
            end = ends[point]
            assert end is not None
            at[point] = len(found)
            found.append(
                Piece(
                    kind, *common, line.device.name, item.begin, end, item.bytes,
                    needs, waits + earlier,
                )
            )  # fmt: skip
            waits = [at[point]]
        for cell, point_or_none in zip(item.operation.makes, item.ready, strict=True):
            known = at.get(point_or_none) if point_or_none is not None else None
            made[item.call, cell] = len(found) - 1 if known is None else known
    return bounded(found)


def _add_queued(
    item: Issued, found: list["Piece"], made: dict[tuple[int, int], int], names: Names
) -> None:
    """Work that is on no timeline: of simulated devices, and of those of plug-ins."""
    common = (names.of(item.operation), item.call)
    found.append(Piece("queue", *common, HOST_TRACK, item.begin, item.end, None, [], []))
    needs = [made[item.call, c] for c in item.operation.reads if (item.call, c) in made]
    for queued in item.queued:
        ran = queued.ran
        assert ran is not None
        leaving = queued.cell in item.operation.makes and queued.kind != kind_of(item.operation)
        if leaving:
            needs = [made[item.call, queued.cell]]
        else:
            made.update({(item.call, cell): len(found) for cell in item.operation.makes})
        name = names.value(item.operation, queued.cell) if leaving else common[0]
        found.append(
            Piece(
                queued.kind, name, item.call, queued.track, ran.begin, ran.end, queued.bytes,
                needs, [],
            )
        )  # fmt: skip


@dataclass
class Piece:
    """`Work` whose times are not settled yet; it begins after `waits`."""

    kind: str
    name: str
    call: int
    track: str
    begin: float
    end: float
    bytes: int | None
    needs: list[int]
    waits: list[int]


def bounded(pieces: list[Piece]) -> list[Work]:
    """What others waited for ended before they did, and they began when it had ended."""
    for piece in reversed(pieces):
        for earlier in piece.waits:
            pieces[earlier].end = min(pieces[earlier].end, piece.end)
    found = []
    for piece in pieces:
        begin = max([piece.begin, *(pieces[earlier].end for earlier in piece.waits)])
        piece.end = max(piece.end, begin)
        needs = tuple(dict.fromkeys(piece.needs))
        found.append(
            Work(
                piece.kind,
                piece.name,
                piece.track,
                piece.call,
                begin,
                piece.end,
                piece.bytes,
                needs,
            )
        )
    return found
