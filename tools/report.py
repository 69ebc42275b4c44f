"""How results and errors leave the command line.

stdout carries results: text to read or, with `--json`, one JSON document. stderr carries
all else. An error that is the user's to mend is a message, a place, a hint and a code; any
other exception is a bug in lemurc, and is reported as one with a log to send.
"""

import dataclasses
import json
import logging
import math
import os
import sys
import tempfile
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from lemurc.errors import LemurcError, UsageError
from lemurc.tools.spelling import in_flags

log = logging.getLogger("lemurc.tools")

INTERRUPTED = 130
COMPILER = "pip install torch==2.13.0 && pip install 'lemurc[compile]'"
OPTIONAL_PACKAGES = {
    "iree": COMPILER,
    "onnx": COMPILER,
    "ortools": COMPILER,
    "safetensors": COMPILER,
    "tokenizers": "pip install 'lemurc[examples]'",
    "torch": COMPILER,
    "torch_mlir": COMPILER,
    "transformers": "pip install 'lemurc[examples]'",
}
LEVELS = {
    "error": logging.ERROR,
    "warning": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
}


@dataclass
class Settings:
    """What `main` must know of a verb that failed, perhaps before its flags were parsed.

    `json` says that one JSON document is still owed.
    """

    json: bool = False
    debug: bool = False


@dataclass(frozen=True)
class ErrorReport:
    """An error under `--json`; `code` is listed in docs/errors.md."""

    message: str
    code: str
    where: str
    hint: str
    exit_status: int


def emit(verb: str, result: Any) -> None:
    """One JSON document on stdout; docs/schema/<verb>.v1.json describes it."""
    document = {"schema": f"{verb}.v1", **plain(result)}
    click.echo(json.dumps(document, indent=1, sort_keys=True, allow_nan=False))
    context = click.get_current_context(silent=True)
    if context is not None:
        context.obj.json = False  # a verb that fails after its document prints no second one


def plain(value: Any) -> Any:
    """Dataclasses, tuples and paths as JSON values; NaN and infinities become null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def note(message: str) -> None:
    click.echo(message, err=True)


def listen(level: str) -> None:
    """Send lemurc's log and its warnings to stderr, one plain line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    logger = logging.getLogger("lemurc")
    logger.handlers[:] = [handler]
    logger.setLevel(LEVELS[level])
    warnings.showwarning = _show_warning


def tell(error: Exception, argv: list[str], settings: Settings) -> int:
    """Print `error` for a person, and as JSON if asked; its exit status."""
    if settings.debug:
        traceback.print_exception(error, file=sys.stderr)
    if not isinstance(error, LemurcError):
        error = _missing_package(error) or _bug(error, argv)
    error = in_flags(error)
    for line in _lines(error):
        note(line)
    if settings.json:
        _emit_error(error.message, error.code, error.exit_status, error.where, error.hint)
    return error.exit_status


def tell_usage(error: click.ClickException, settings: Settings) -> int:
    """click's own complaint about a flag or an argument."""
    error.show(file=sys.stderr)
    if settings.json:
        _emit_error(error.format_message(), "usage", error.exit_code, "command line", "")
    return error.exit_code


def tell_interrupt() -> int:
    note("interrupted")
    return INTERRUPTED


def quiet_pipe() -> int:
    """The reader of our output went away (`| head`): not an error worth a message."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _lines(error: LemurcError) -> list[str]:
    lines = [f"{click.style('error', fg='red', bold=True)}: {error.message}"]
    if error.where:
        lines.append(f"  at {error.where}")
    if error.hint:
        lines.append(f"  hint: {error.hint}")
    lines.append(f"  code: {error.code} (exit status {error.exit_status}; docs/errors.md)")
    return lines


def _emit_error(message: str, code: str, status: int, where: str, hint: str) -> None:
    emit("error", ErrorReport(message, code, where, hint, status))


def _missing_package(error: Exception) -> LemurcError | None:
    """A machine that only runs artifacts has no compiler: say so instead of crashing."""
    package = (getattr(error, "name", None) or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or package not in OPTIONAL_PACKAGES:
        return None
    return missing_package(package)


def missing_package(package: str) -> UsageError:
    return UsageError(
        f"this needs the package {package}, which is not installed",
        code="missing-package",
        hint=OPTIONAL_PACKAGES[package],
    )


def _bug(error: Exception, argv: list[str]) -> LemurcError:
    saved = _save_log(error, argv)
    return LemurcError(
        f"internal error, this is a bug in lemurc: {type(error).__name__}: {error}",
        code="internal",
        where=_innermost(error),
        hint=f"the traceback is in {saved}; please send it with the model, or see it now with "
        "`lemurc --debug ...`",
    )


def _innermost(error: Exception) -> str:
    """The last line of ours before it failed, which tells more than one in a library."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "lemurc" in Path(frame.filename).parts] or frames
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else ""


def _save_log(error: Exception, argv: list[str]) -> str:
    from lemurc import __version__

    with tempfile.NamedTemporaryFile(
        "w", prefix="lemurc-", suffix=".log", delete=False, encoding="utf-8"
    ) as file:
        file.write(f"lemurc {__version__}, Python {sys.version}\nlemurc {argv}\n\n")
        traceback.print_exception(error, file=file)
    return file.name


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any
) -> None:
    """Libraries' warnings are for those who maintain lemurc; ours, and those about the
    user's own lines, are for its users."""
    from lemurc.frontend.user_code import is_library

    shown = click.style("warning", fg="yellow")
    if category.__module__.startswith("lemurc"):
        note(f"{shown}: {message}")
    elif not is_library(filename):
        note(f"{shown}: {message}\n  at {filename}:{lineno}")
    else:
        log.debug("%s: %s (%s:%d)", category.__name__, message, filename, lineno)
