"""Memory lent to IREE, which may give it back on a thread of its own.

In IREE 3.13 whoever drops the last buffer over a parameter drops the references to the Python
object below it, too. After a call that may be a worker thread. It does not hold the
interpreter's lock, so that two threads change reference counts, or free objects, at once.

Therefore what is lent is an object that nothing else refers to or looks at, with one reference
more than IREE knows of: giving it back only lowers a count, which is read to see whether the
memory below may go.
"""

import ctypes
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

_let_go = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(("Py_DecRef", ctypes.pythonapi))


class _Loan(NamedTuple):
    memory: memoryview
    references: int
    """Of the object that was lent, when it has been given back."""


_lock = threading.Lock()
_loans: dict[int, _Loan] = {}
"""By the address of the object that was lent."""


def lend(memory: memoryview, borrow: Callable[[Any], None]) -> None:
    """Call `borrow` with an object that has the bytes of `memory`, which must not change."""
    size = memory.nbytes
    address = np.frombuffer(memory, np.uint8).__array_interface__["data"][0] if size else 0
    lent = (ctypes.c_ubyte * size).from_address(address) if size else (ctypes.c_ubyte * 0)()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(lent))
    with _lock:
        # without that of the variable
        _loans[id(lent)] = _Loan(memory, _references(id(lent)) - 1)
    borrow(lent)


def settle() -> None:
    """Let go of the memory that has been given back."""
    with _lock:
        for address, loan in list(_loans.items()):
            if _references(address) == loan.references:
                del _loans[address]
                _let_go(address)


def _references(address: int) -> int:
    """`sys.getrefcount` would change the count while a worker does."""
    return ctypes.c_ssize_t.from_address(address).value
