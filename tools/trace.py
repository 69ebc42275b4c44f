"""`lemurc.trace`: calls of an artifact on one timeline over all devices, for Perfetto."""

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lemurc.system_file import SystemDescription
from lemurc.tools.call import as_request, call, choose_function, choose_inputs
from lemurc.tools.whole_files import check_writable

if TYPE_CHECKING:
    from lemurc.runtime.recorded_work import Work


@dataclass(frozen=True)
class TraceTrack:
    """What a device, or the host, did in a call: means over the calls, in seconds and bytes."""

    device: str
    stages: float
    transfers: float
    bytes: float


@dataclass(frozen=True)
class TraceResult:
    """The trace in `output` is of `calls` calls of `function`, of `median` seconds.

    Times in it are late by `late_median` seconds, and one in ten by more than `late_p90`; those
    of simulated devices are not late.
    """

    output: str
    function: str
    inputs_from: str
    placement: str
    calls: int
    median: float
    tracks: tuple[TraceTrack, ...]
    late_median: float
    late_p90: float


def trace(
    path: str | Path,
    *,
    output: str | Path,
    inputs: Sequence[str] = (),
    devices: Sequence[str] | None = None,
    function: str | None = None,
    calls: int = 3,
    warmup: int = 3,
    strict: bool = False,
    imports: Sequence[str] = (),
    simulate: str | Path | SystemDescription | None = None,
    stream: bool = False,
) -> TraceResult:
    """Call `function` of `path` `warmup` times, then `calls` times with a clock on each piece of
    work, and write the trace to `output`, as JSON.

    Calls run as asynchronously as ever: nothing waits for a stage in order to time it. They come
    one after another or, with `stream`, as `session.stream` has them in flight. `imports` and
    `simulate` are those of `lemurc.load`.
    """
    import lemurc
    from lemurc.tools.recording import Recording

    check_writable(output)
    with lemurc.load(
        path, devices=devices, strict=strict, imports=imports, simulate=simulate
    ) as session:
        name = choose_function(session.manifest, function)
        source, arrays, _ = choose_inputs(session.artifact, name, inputs)
        entry = session.manifest.functions[name]
        with Recording(session) as recording:
            for _ in range(warmup):  # of the recording too: its threads start with the first call
                call(session, name, entry, arrays)
            recording.forget()
            if stream:
                recording.stream(name, itertools.repeat(as_request(entry, arrays), calls))
            for _ in range(0 if stream else calls):
                with recording.call():
                    call(session, name, entry, arrays)
        recording.write(output, name)
        return TraceResult(
            output=str(output),
            function=name,
            inputs_from=source,
            placement=session.placement_line(name),
            calls=calls,
            median=statistics.median(item.end - item.begin for item in recording.calls),
            tracks=_tracks(recording.work, calls),
            late_median=recording.late[0],
            late_p90=recording.late[1],
        )


def _tracks(work: "Sequence[Work]", calls: int) -> tuple[TraceTrack, ...]:
    found = []
    for device in dict.fromkeys(item.track for item in work):
        mine = [item for item in work if item.track == device]
        moved = [item for item in mine if item.bytes is not None]
        found.append(
            TraceTrack(
                device=device,
                stages=sum(i.end - i.begin for i in mine if i.kind == "stage") / calls,
                transfers=sum(i.end - i.begin for i in moved) / calls,
                bytes=sum(i.bytes or 0 for i in moved) / calls,
            )
        )
    return tuple(found)
