"""The user's own line in the traceback of an exception their code met or raised."""

import functools
import importlib.util
import sysconfig
import traceback
from pathlib import Path

import lemurc

_STANDARD = (f"{sysconfig.get_path('stdlib')}/", f"{sysconfig.get_path('platstdlib')}/", "<")
_PACKAGES = (f"{sysconfig.get_path('purelib')}/", f"{sysconfig.get_path('platlib')}/")
_OURS = f"{Path(lemurc.__file__).parent}/"


def is_library(file: str) -> bool:
    """Whether a frame's file is Python's, an installed package's or lemurc's."""
    return file.startswith(_PACKAGES) or _is_machinery(file)


def raising_line(error: BaseException, file: Path | None = None) -> str:
    """`model.py:12`: the innermost frame in `file`, else in code that is no library's.

    Where the user wrote no frame at all it is the innermost outside PyTorch and lemurc;
    empty where there is none.
    """
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename is not None:
        frames.append((error.filename, error.lineno))
    outside = [frame for frame in frames if not _is_machinery(frame[0])]
    own = [frame for frame in outside if not is_library(frame[0])]
    given = [frame for frame in frames if file is not None and _same(frame[0], file)]
    for name, line in (given or own or outside)[-1:]:
        return f"{name}:{line}"
    return ""


def raised_by_user(error: BaseException) -> bool:
    """Whether the exception was raised outside PyTorch and lemurc."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and not _is_machinery(frames[-1].filename)


def said(error: BaseException, lines: int = 6) -> str:
    """`ValueError: no such size`, in `lines` lines at most."""
    text = [line for line in str(error).splitlines() if line.strip()][:lines]
    kind = type(error).__name__
    return f"{kind}: " + "\n".join(text) if text else kind


def _same(name: str, file: Path) -> bool:
    return Path(name).resolve() == file.resolve()


def _is_machinery(file: str) -> bool:
    return file.startswith((*_STANDARD, _OURS, _torch_folder()))


@functools.cache
def _torch_folder() -> str:
    """Without importing it: warnings come where only the runtime is installed, too."""
    spec = importlib.util.find_spec("torch")
    return f"{Path(spec.origin).parent}/" if spec and spec.origin else "<"
