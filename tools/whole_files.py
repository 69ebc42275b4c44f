"""Files that are there whole or not at all."""

import os
import secrets
from pathlib import Path

from lemurc.errors import UsageError


def check_writable(path: str | Path) -> None:
    """Fail before the work, not after it."""
    folder = Path(path).absolute().parent
    if Path(path).is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise _unwritable(path, "there is no folder to write it to, or it is one itself")


def write_text(path: str | Path, text: str) -> None:
    """An interrupted write leaves the old file, never half of the new one."""
    target = Path(path)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from error
    finally:
        partial.unlink(missing_ok=True)


def _unwritable(path: str | Path, why: str) -> UsageError:
    return UsageError(
        f"cannot write {path}: {why}",
        code="unwritable-output",
        where=str(path),
        hint="name a file in a folder that is there, or make room",
    )
