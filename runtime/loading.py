"""Opening devices and loading stages on them, within a limit.

A driver that does not come back cannot be made to. So what may hang runs on a thread that can be
left, and the device it was for counts as one that failed. What holds Python's lock meanwhile, as
IREE does for its own devices, nobody can leave.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import wait
from functools import partial
from typing import TypeVar

from lemurc.errors import DeviceError
from lemurc.runtime.devices import Inventory, discover
from lemurc.runtime.spare_threads import on_thread

T = TypeVar("T")


def found_within(seconds: float | None, targets: Iterable[str]) -> Inventory | None:
    """The devices of `targets`, none of those that do not answer; None where there is no limit,
    so that whoever looks takes his time."""
    if seconds is None:
        return None
    found = Inventory({})
    for target in targets:
        try:
            more = within(seconds, partial(discover, (target,)), "look for devices", target)
        except DeviceError as error:
            more = Inventory({target: ()}, why_not={target: error.message})
        found.names.update(more.names)
        found.descriptions.update(more.descriptions)
        found.why_not.update(more.why_not)
    return found


def within(seconds: float | None, work: Callable[[], T], doing: str, device: str) -> T:
    """What `work` returns; DeviceError, "cannot <doing> on <device>", after so many seconds."""
    if seconds is None:
        return work()
    task = on_thread(work)
    try:
        if wait([task], seconds).not_done:
            raise DeviceError(
                f"cannot {doing} on {device}: it has not answered within {seconds:g} s",
                code="device-hung",
                where=device,
                hint="give it more time to load, or leave the device out with devices=",
            )
        return task.result()
    finally:
        del task  # its error refers to this frame
