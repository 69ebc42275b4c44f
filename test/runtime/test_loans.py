"""Memory that IREE reads in place outlives its last use, and not by much."""

import time
import weakref

import numpy as np

import lemurc
from lemurc.runtime import loans, transport
from lemurc.runtime.devices import open_device
from lemurc.runtime.element_types import element_type


def settled() -> bool:
    """Workers give back what they used after they said that they are done."""
    deadline = time.monotonic() + 10
    while loans._loans and time.monotonic() < deadline:
        loans.settle()
        time.sleep(0.001)
    return not loans._loans


def test_memory_stays_until_it_is_given_back() -> None:
    assert settled()
    array = np.arange(5, dtype=np.int32)
    memory = memoryview(array).cast("B")
    alive, borrowed = weakref.ref(memory), []
    loans.lend(memory, borrowed.append)
    del memory
    loans.settle()
    assert alive() is not None
    assert bytes(borrowed[0]) == array.tobytes()
    borrowed.clear()
    loans.settle()
    assert alive() is None


def test_nothing_is_a_loan_too() -> None:
    borrowed: list[object] = []
    loans.lend(memoryview(b""), borrowed.append)
    assert borrowed and bytes(borrowed.pop()) == b""
    assert settled()


def test_weights_are_lent_as_long_as_a_session_is_open(adder) -> None:
    assert settled()
    session = lemurc.load(adder)
    session(np.zeros(4, np.float32))
    loans.settle()
    assert len(loans._loans) == 1
    session.close()
    assert settled()


def test_a_copy_is_the_devices_own(monkeypatch) -> None:
    """What the caller does not hold may not be lent: it would be gone before it is read."""
    monkeypatch.setattr(transport, "ALIGNMENT", 16)  # that of NumPy's memory
    device, element = open_device("cpu:0"), element_type("float32")
    whole = np.zeros((256, 256), np.float32)
    assert transport.host_view(whole, device, element, False)[1]
    assert not transport.host_view(whole.T, device, element, False)[1]
