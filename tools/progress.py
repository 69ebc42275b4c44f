"""Progress of a compilation, on stderr.

The compiler calls back with (phase, done, total, detail). On a terminal one bar a phase
shows what is being compiled and how long it has been at it, so that a slow step is never
mistaken for a hang. Pipes, logs and CI get one plain line when a phase begins;
`--log-level error` leaves it out, `-v` adds one for each step.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lemurc.tools.report import note

Progress = Callable[[str, int, int, str], None]

log = logging.getLogger("lemurc.progress")


@contextmanager
def progress() -> Iterator[Progress]:
    """A callback for `lemurc.compile`; the bars go away when the block is left."""
    if not sys.stderr.isatty():
        yield _plain()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    bars = Bars(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[detail]}", style="dim"),
        console=Console(stderr=True),
        transient=True,
    )
    tasks: dict[str, TaskID] = {}

    def show(phase: str, done: int, total: int, detail: str) -> None:
        if phase not in tasks:
            tasks[phase] = bars.add_task(phase, total=total or None, detail=detail)
        bars.update(tasks[phase], completed=done, total=total or None, detail=detail)

    with bars:
        yield show


def _plain() -> Progress:
    begun: set[str] = set()

    def show(phase: str, done: int, total: int, detail: str) -> None:
        if phase not in begun and log.isEnabledFor(logging.WARNING):
            note(f"{phase} ...")
        begun.add(phase)
        log.info("%s %d/%d %s", phase, done, total, detail)

    return show
