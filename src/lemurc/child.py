"""Run our own Python modules in child processes that cannot take the caller down."""

import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from lemurc import errors
from lemurc.errors import BudgetError, InternalError, LemurcError

_POLL_SECONDS = 0.02
_PR_SET_PDEATHSIG = 1
_NOISE = re.compile(
    r"\s*#\d+ 0x|PLEASE submit a bug report|Stack dump|\d+\.\s+Program arguments"
    r"|.*\.so[.\d]*\(.*\+0x|.*Initializing MLIR|\s*warnings\.warn\(|.*Warning: "
)
"""Lines that LLVM, torch-mlir and Python add to any log."""


def run_module(
    module: str,
    folder: Path,
    *,
    error_file: str,
    time_limit: float | None = None,
    budget: float | None = None,
    max_rss: int | None = None,
) -> str:
    """Run `python -m module folder` and return what it logged.

    The child reports a LemurcError as JSON in `folder/error_file`; it is raised here.
    Any other death is an InternalError that names the log. `max_rss` is in bytes. Of the
    `budget`, which an error names, `time_limit` is left.
    """
    log = folder / "log.txt"
    reported = folder / error_file
    reported.unlink(missing_ok=True)  # of an earlier run in a folder that was kept
    with log.open("wb") as output, _group(module, folder, output) as process:
        deadline = None if time_limit is None else time.monotonic() + time_limit
        while process.poll() is None:
            if deadline is not None and time.monotonic() > deadline:
                raise BudgetError(
                    f"compiling took longer than {budget or time_limit:g} s: "
                    "it was not past lowering",
                    code="time-budget",
                    hint="allow more time with --budget",
                )
            if max_rss is not None and _resident_bytes(process.pid) > max_rss:
                raise BudgetError(
                    f"lowering used more than {max_rss / 2**20:.0f} MiB",
                    code="memory-budget",
                    hint="allow more memory with --max-rss",
                )
            time.sleep(_POLL_SECONDS)
    text = log.read_text(errors="replace")
    if reported.exists():
        raise _rebuild(json.loads(reported.read_text()))
    if process.returncode != 0:
        raise _death(process.returncode, text)
    return text


@contextlib.contextmanager
def _group(module: str, folder: Path, output: BinaryIO) -> Iterator[subprocess.Popen[bytes]]:
    """The child leads a process group of its own, which never outlives the block."""
    process: subprocess.Popen[bytes] | None = None
    try:
        with interrupts_held():
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent(),
            )
        yield process
    finally:
        if process is not None:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """^C waits for the end of the block: raised in what runs around a fork, it is ignored."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    waiting: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: waiting.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if waiting:
            signal.raise_signal(signal.SIGINT)


def die_with_parent() -> Callable[[], object] | None:
    """On Linux, a function for the child that has the kernel kill it with its parent."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # looked up before the fork

    def request() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    return request


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _rebuild(report: dict[str, str]) -> LemurcError:
    kind = getattr(errors, report["type"], InternalError)
    error: LemurcError = kind(
        report["message"], code=report["code"], where=report["where"], hint=report["hint"]
    )
    return error


def _death(status: int, text: str) -> InternalError:
    how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
    said = "".join(f"\n  {line}" for line in last_words(text))
    killed = (
        "nobody but the kernel sends SIGKILL, and it does when memory runs out: free some, or "
        "compile a smaller model. Otherwise, "
    )
    return InternalError(
        f"the lowering process ended with {how}, having said:{said or ' nothing'}",
        code="lowering-crashed",
        hint=f"{killed if status == -signal.SIGKILL else ''}send the log {_kept(text)}; "
        "compile with --save-temps DIR and send the last file in DIR/passes too: it is the IR "
        "before the pass that failed",
    )


def last_words(text: str, count: int = 5) -> list[str]:
    """The end of a log without stack frames; of a Python traceback only its last line."""
    kept: list[str] = []
    within = False
    for line in text.splitlines():
        if line.startswith("Traceback (most recent call last)"):
            within = True
        elif within and line.startswith(" "):
            continue
        elif line.strip() and not _NOISE.match(line):
            within = False
            kept.append(line.rstrip())
    return kept[-count:]


def _kept(text: str) -> str:
    with tempfile.NamedTemporaryFile(
        "w", prefix="lemurc-", suffix=".log", delete=False, encoding="utf-8"
    ) as file:
        file.write(text)
    return file.name
