"""Run compilers on many stages at once, within limits of time and memory.

Each stage is one native process in its own session. Whatever ends the call (a limit,
^C, an error) kills every process group it started, and the kernel kills a child whose
parent died: nothing is left running.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lemurc.errors import BudgetError
from lemurc.targets.cache import Cache, cache_key, default_directory
from lemurc.targets.compiler_process import CompilerProcess, Tool, save_reproducer
from lemurc.targets.iree_process import iree_compile

_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class CompileJob:
    """One stage for one architecture; `name`, `target` and `arch` are for messages."""

    name: str
    target: str
    arch: str
    bytecode: bytes
    flags: tuple[str, ...]
    check: Callable[[bytes], str] | None = None
    """What is wrong with a module just compiled; "" when nothing is."""
    tool: Tool = field(default_factory=iree_compile)


@dataclass(frozen=True)
class CompileFailure:
    """Why there is no module: the compiler refused the stage, crashed or hung on it."""

    job: CompileJob
    crashed: bool
    diagnostic: str
    reproducer: str

    def __str__(self) -> str:
        verb = "crashed on" if self.crashed else "cannot compile"
        return (
            f"{self.job.tool.name} {verb} {self.job.name} for {self.job.target}:{self.job.arch}: "
            f"{self.diagnostic} (reproducer: {self.reproducer})"
        )


Progress = Callable[[int, int, str], None]
"""Called with the number of jobs done, their total, and the name of the latest."""


@dataclass
class _Work:
    """Jobs with equal keys are one piece of work."""

    job: CompileJob
    positions: list[int] = field(default_factory=list)


def compile_jobs(
    jobs: Sequence[CompileJob],
    *,
    cache: Cache | None = None,
    workers: int | None = None,
    time_limit: float | None = None,
    budget: float | None = None,
    max_rss_bytes: int | None = None,
    progress: Progress | None = None,
) -> list[bytes | CompileFailure]:
    """One module or failure per job, in order; equal jobs compile once.

    `time_limit` (seconds) and `max_rss_bytes` (of all compilers together) hold for the
    whole call; passing one raises BudgetError, which names the `budget` that
    `time_limit` is the rest of. Memory pressure first costs parallelism:
    the youngest process is put back before the last one running is given up.
    """
    pending: dict[str, _Work] = {}
    for position, job in enumerate(jobs):
        key = cache_key(job.bytecode, job.flags, job.tool.version)
        pending.setdefault(key, _Work(job)).positions.append(position)
    run = _Run(jobs, cache, time_limit, budget or time_limit, max_rss_bytes, progress)
    for key in list(pending):
        if cache is not None and (found := cache.get(key)) is not None:
            run.finish(pending.pop(key), found)
    run.compile(pending, workers)
    return [result for result in run.results if result is not None]


class _Run:
    """The state of one call of `compile_jobs`."""

    def __init__(
        self,
        jobs: Sequence[CompileJob],
        cache: Cache | None,
        time_limit: float | None,
        budget: float | None,
        max_rss_bytes: int | None,
        progress: Progress | None,
    ) -> None:
        self.results: list[bytes | CompileFailure | None] = [None] * len(jobs)
        self.done = 0
        self.cache = cache
        self.failures = (cache.directory if cache else default_directory()) / "failures"
        self.time_limit = time_limit
        self.budget = budget
        self.max_rss_bytes = max_rss_bytes
        self.progress = progress

    def finish(self, work: _Work, result: bytes | CompileFailure) -> None:
        for position in work.positions:
            self.results[position] = result
        self.done += len(work.positions)
        if self.progress is not None:
            self.progress(self.done, len(self.results), work.job.name)

    def compile(self, pending: dict[str, _Work], workers: int | None) -> None:
        deadline = None if self.time_limit is None else time.monotonic() + self.time_limit
        slots = workers or available_cores()
        queue = deque(pending)
        running: dict[str, CompilerProcess] = {}
        try:
            while queue or running:
                while queue and len(running) < slots:
                    job = pending[queue[0]].job
                    running[queue.popleft()] = CompilerProcess(job.tool, job.bytecode, job.flags)
                for key in [key for key, process in running.items() if process.ended()]:
                    self._collect(key, pending[key], running.pop(key))
                if deadline is not None and time.monotonic() > deadline:
                    raise self._out_of_time([pending[key].job for key in [*running, *queue]])
                if self._over_memory(running):
                    key, process = running.popitem()
                    process.close()
                    if not running:
                        raise self._out_of_memory(pending[key].job)
                    slots = len(running)
                    queue.append(key)
                if running:
                    time.sleep(_POLL_SECONDS)
        finally:
            for process in running.values():
                process.close()

    def _collect(self, key: str, work: _Work, process: CompilerProcess) -> None:
        try:
            module = process.module()
            problem = work.job.check(module) if module and work.job.check else ""
            if module is None or problem:
                job = work.job
                folder = save_reproducer(
                    self.failures / key[:16], job.tool, job.bytecode, job.flags, process.log()
                )
                failure = CompileFailure(
                    job, process.crashed(), problem or process.diagnostic(), str(folder)
                )
                self.finish(work, failure)
                return
        finally:
            process.close()
        if self.cache is not None:
            self.cache.put(key, module)
        self.finish(work, module)

    def _over_memory(self, running: dict[str, CompilerProcess]) -> bool:
        if self.max_rss_bytes is None or not running:
            return False
        return sum(process.resident_bytes() for process in running.values()) > self.max_rss_bytes

    def _out_of_time(self, unfinished: list[CompileJob]) -> BudgetError:
        first = unfinished[0]
        return BudgetError(
            f"compiling took longer than {self.budget:g} s; {len(unfinished)} of "
            f"{len(self.results)} modules were not finished",
            code="time-budget",
            where=f"{first.name} for {first.target}:{first.arch}",
            hint="allow more time, name fewer targets, or lower the optimisation level",
        )

    def _out_of_memory(self, job: CompileJob) -> BudgetError:
        assert self.max_rss_bytes is not None
        return BudgetError(
            f"{job.tool.name} used more than {self.max_rss_bytes / 2**20:.0f} MiB",
            code="memory-budget",
            where=f"{job.name} for {job.target}:{job.arch}",
            hint="allow more memory, or cut the model into smaller stages",
        )


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
