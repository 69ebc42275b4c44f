"""Many calls: from several threads, queued, and without keeping memory."""

import os
import threading
from pathlib import Path

import torch

from lemurc.tools.conformance_cases.case import (
    Bench,
    Failed,
    Function,
    Scenario,
    demand,
    draw,
    eager,
    expect,
)

THREADS, CALLS = 4, 12
WARMUP, MANY = 60, 400
GROWTH_BYTES = 16 << 20
"""Less than what `MANY` calls would keep if each kept its argument of 64 KiB."""


def _work(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    return [torch.tanh(x @ y) @ y, x.sum(-1)]


def _arguments(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    return draw(24, 24, seed=seed), draw(24, 24, seed=seed + 1000)


def _threads(bench: Bench) -> None:
    model = Function(_work)
    wrong: list[BaseException] = []
    with bench.compiled(model, _arguments(0)) as session:

        def work(thread: int) -> None:
            try:
                for call in range(CALLS):
                    given = _arguments(thread * CALLS + call)
                    expect(session(*given), eager(_work, given), f"thread {thread}, call {call}")
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if wrong:
        raise wrong[0]


def _queued(bench: Bench) -> None:
    model = Function(_work)
    with bench.compiled(model, _arguments(0)) as session:
        queued = [session.run_async(*_arguments(seed)) for seed in range(20)]
        for seed, future in enumerate(queued):
            expect(future.result(60), eager(_work, _arguments(seed)), f"queued call {seed}")


def _memory(bench: Bench) -> None:
    x = draw(128, 128)
    with bench.compiled(Function(lambda x: [x + 1, x * x]), (x,)) as session:
        for _ in range(WARMUP):
            session(x)
        before = _resident()
        for _ in range(MANY):
            session(x)
        grown = _resident() - before
        demand(
            grown < GROWTH_BYTES,
            f"{MANY} calls of {x.nbytes >> 10} KiB left the process {grown >> 20} MiB larger",
        )


def _loads(bench: Bench) -> None:
    """Opening and closing sessions again and again."""
    x = draw(256, 256)
    path = bench.compile(torch.nn.Linear(256, 256).eval(), (x,))
    before = 0
    for number in range(24):
        if number == 8:
            before = _resident()
        with bench.load(path) as session:
            session(x)
    grown = _resident() - before
    demand(grown < GROWTH_BYTES, f"16 sessions left the process {grown >> 20} MiB larger")


def _resident() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError as error:
        raise Failed("this operating system does not say how much memory is used") from error


SCENARIOS = (
    Scenario("threads", _threads),
    Scenario("queued", _queued),
    Scenario("keep_no_memory", _memory),
    Scenario("sessions_keep_no_memory", _loads),
)
