"""One process of a compiler, IREE's or a plug-in's: start, watch, kill, read.

It runs in a session of its own, in a folder of its own, with paths that are relative to it:
nothing of this machine reaches what it makes.
"""

import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lemurc.child import die_with_parent, interrupts_held, last_words

_CRASHES = {-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGFPE, -signal.SIGILL, -signal.SIGBUS}
_INPUT, _OUTPUT, _LOG = "stage.mlirbc", "stage.out", "log.txt"


@dataclass(frozen=True)
class Tool:
    """A compiler as a program: `*command INPUT FLAGS -o OUTPUT`.

    `name` is for messages, and `version` is part of what decides the output. A process
    that has not ended after `time_limit` seconds is killed and counts as one that crashed.
    """

    name: str
    command: tuple[str, ...]
    version: str
    spelling: tuple[str, ...]
    """How a person types `command`, for reproducers."""
    time_limit: float | None = None


class CompilerProcess:
    """A running compiler and its temporary folder; `close` ends both."""

    def __init__(self, tool: Tool, bytecode: bytes, flags: Sequence[str]) -> None:
        self._tool = tool
        self._start = time.monotonic()
        self._hung = False
        self._folder = tempfile.TemporaryDirectory(prefix="lemurc-")
        root = Path(self._folder.name)
        (root / _INPUT).write_bytes(bytecode)
        command = [*tool.command, _INPUT, *flags, "-o", _OUTPUT]
        process: subprocess.Popen[bytes] | None = None
        try:
            with (root / _LOG).open("wb") as log, interrupts_held():
                process = subprocess.Popen(
                    command,
                    cwd=root,
                    env=_environment(root),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=die_with_parent(),
                )
            self._process = process
        except KeyboardInterrupt:
            if process is not None:
                self._process = process
                self.close()
            raise

    def ended(self) -> bool:
        """Whether it is over, which one that hangs is made to be."""
        limit = self._tool.time_limit
        if limit is not None and time.monotonic() - self._start > limit and self._running():
            self._hung = True
            self._kill()
        return not self._running()

    def crashed(self) -> bool:
        """Whether a signal, not a verdict, ended it."""
        return (
            self._hung
            or self._process.returncode in _CRASHES
            or "PLEASE submit a bug report" in self.log()
        )

    def module(self) -> bytes | None:
        """What was compiled, or None when nothing was."""
        path = Path(self._folder.name, _OUTPUT)
        if self._process.returncode != 0 or not path.exists():
            return None
        return path.read_bytes()

    def log(self) -> str:
        return Path(self._folder.name, _LOG).read_text(errors="replace")

    def diagnostic(self) -> str:
        """The first line that says what is wrong, without the position in our bytecode."""
        if self._hung:
            return f"it did not end within {self._tool.time_limit:g} s"
        for line in self.log().splitlines():
            found = re.search(r"\b(?:error|LLVM ERROR|Assertion)\b:? ?(.*)", line)
            if found and found.group(1):
                # A location printed in full can run to kilobytes before the message.
                return found.group(1).rsplit("): ", 1)[-1].strip()[:300]
        code = self._process.returncode
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        said = last_words(self.log(), 1)
        if not code:
            return "it ended well but wrote no code"
        return said[0].strip()[:300] if said else f"exit status {code} without a message"

    def resident_bytes(self) -> int:
        """Resident memory of the process and its children (0 where there is no /proc)."""
        return sum(_resident_bytes(pid) for pid in _with_children(self._process.pid))

    def close(self) -> None:
        """Kills the group, if it still runs, and removes the folder."""
        if self._running():
            self._kill()
        self._folder.cleanup()

    def _running(self) -> bool:
        return self._process.poll() is None

    def _kill(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it ended meanwhile
        self._process.wait()


def save_reproducer(
    folder: Path, tool: Tool, bytecode: bytes, flags: Sequence[str], log: str
) -> Path:
    """Fills `folder` with the input, the log and the command that shows the failure again.

    Returns where they are: elsewhere when `folder` cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="lemurc-failure-"))
    command = shlex.join([*tool.spelling, _INPUT, *flags, "-o", _OUTPUT])
    (folder / _INPUT).write_bytes(bytecode)
    (folder / _LOG).write_text(log)
    (folder / "command.sh").write_text(f"{command}\n")
    return folder


def _environment(folder: Path) -> dict[str, str]:
    """That of this process, with temporary files in `folder`; what PYTHONPATH names relative to
    the working directory must be found from there too."""
    changed = dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(folder))
    if searched := os.environ.get("PYTHONPATH"):
        changed["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, searched.split(os.pathsep)))
    return {**os.environ, **changed}


def _with_children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return [pid]
    return [pid, *(child for word in text.split() for child in _with_children(int(word)))]


def _resident_bytes(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
