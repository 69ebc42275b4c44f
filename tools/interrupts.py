"""Where ^C and a request to end may be taken.

Python runs a signal's handler between any two of its instructions, also of those that native
code runs. In IREE's compiler that happens while its extension modules are made, where no
exception may pass: nanobind ends the process with an abort. There the signal waits.
"""

import signal
import threading
from importlib.machinery import ExtensionFileLoader
from types import FrameType
from typing import NoReturn

_SOON = 0.02
"""Seconds until a signal that has to wait is tried again."""


def install() -> None:
    """Makes ^C a KeyboardInterrupt and SIGTERM an exit that unwinds, so that child processes
    and temporary folders go too. A job in the background that ignores ^C goes on ignoring it."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _handle)
    signal.signal(signal.SIGTERM, _handle)


def _handle(number: int, frame: FrameType | None) -> None:
    if not _loads_native_code(frame):
        _raise(number)
    # To the main thread, so that it also ends a wait there.
    main = threading.main_thread().ident
    again = threading.Timer(_SOON, signal.pthread_kill, (main, number))
    again.daemon = True
    again.start()


def _raise(number: int) -> NoReturn:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


def _loads_native_code(frame: FrameType | None) -> bool:
    while frame is not None:
        if isinstance(frame.f_locals.get("self"), ExtensionFileLoader):
            return True
        frame = frame.f_back
    return False
