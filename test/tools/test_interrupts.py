"""A signal that comes while native code is loaded is taken when it is loaded."""

import os
import signal
import time
from collections.abc import Iterator
from importlib.machinery import ExtensionFileLoader
from types import ModuleType

import pytest

from lemurc.tools import interrupts


class Loader(ExtensionFileLoader):
    """Stands for an extension module whose initialisation runs Python."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__("native", "native.so")
        self.number, self.finished = number, False

    def exec_module(self, module: ModuleType) -> None:
        os.kill(os.getpid(), self.number)
        time.sleep(0.1)
        self.finished = True


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    interrupts.install()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_native_code_is_loaded_first(number: signal.Signals, error: type[BaseException]) -> None:
    loader = Loader(number)
    with pytest.raises(error):
        loader.exec_module(ModuleType("native"))
        time.sleep(5)
    assert loader.finished


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_elsewhere_it_is_taken_at_once(number: signal.Signals, error: type[BaseException]) -> None:
    with pytest.raises(error) as caught:
        os.kill(os.getpid(), number)
        time.sleep(5)
    assert error is KeyboardInterrupt or caught.value.code == 143


def test_a_job_in_the_background_goes_on_ignoring_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interrupts.install()
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.05)
