"""What all tests need."""

import signal

import pytest


@pytest.fixture(scope="session", autouse=True)
def _interrupts_are_heard() -> None:
    """A shell ignores ^C in jobs it starts in the background, and children inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
