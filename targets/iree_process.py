"""One native iree-compile process: start, watch, kill, read.

The console script `iree-compile` is a Python wrapper whose child survives it, so the
binary inside the wheel is run directly, in a session of its own.
"""

import functools
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lemurc.child import die_with_parent, interrupts_held

_CRASHES = {-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGFPE, -signal.SIGILL, -signal.SIGBUS}
_INPUT, _OUTPUT, _LOG = "stage.mlirbc", "stage.vmfb", "log.txt"


@functools.cache
def compiler_path() -> Path:
    """The native compiler; IREE keeps its linker beside it."""
    import iree.compiler

    name = "iree-compile.exe" if sys.platform == "win32" else "iree-compile"
    return Path(iree.compiler.__file__).parent / "_mlir_libs" / name


@functools.cache
def compiler_version() -> str:
    from importlib.metadata import version

    return version("iree-base-compiler")


class IreeProcess:
    """A running compiler and its temporary folder; `close` ends both."""

    def __init__(self, bytecode: bytes, flags: Sequence[str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="lemurc-")
        root = Path(self._folder.name)
        (root / _INPUT).write_bytes(bytecode)
        command = [str(compiler_path()), _INPUT, *flags, "-o", _OUTPUT]
        process: subprocess.Popen[bytes] | None = None
        try:
            with (root / _LOG).open("wb") as log, interrupts_held():
                # Relative paths: nothing of this machine reaches the module.
                process = subprocess.Popen(
                    command,
                    cwd=root,
                    env=os.environ | dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(root)),
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
        return self._process.poll() is not None

    def crashed(self) -> bool:
        """Whether a signal, not a verdict, ended it."""
        return self._process.returncode in _CRASHES or "PLEASE submit a bug report" in self.log()

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
        for line in self.log().splitlines():
            found = re.search(r"\b(?:error|LLVM ERROR|Assertion)\b:? ?(.*)", line)
            if found and found.group(1):
                # A location printed in full can run to kilobytes before the message.
                return found.group(1).rsplit("): ", 1)[-1].strip()[:300]
        code = self._process.returncode
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"exit status {code} without a message"

    def resident_bytes(self) -> int:
        """Resident memory of the process and its children (0 where there is no /proc)."""
        return sum(_resident_bytes(pid) for pid in _with_children(self._process.pid))

    def close(self) -> None:
        """Kills the group, if it still runs, and removes the folder."""
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it ended meanwhile
            self._process.wait()
        self._folder.cleanup()


def save_reproducer(folder: Path, bytecode: bytes, flags: Sequence[str], log: str) -> Path:
    """Fills `folder` with the input, the log and the command that shows the failure again.

    Returns where they are: elsewhere when `folder` cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="lemurc-failure-"))
    command = shlex.join(["iree-compile", _INPUT, *flags, "-o", _OUTPUT])
    (folder / _INPUT).write_bytes(bytecode)
    (folder / _LOG).write_text(log)
    (folder / "command.sh").write_text(f"{command}\n")
    return folder


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
