"""IREE's exceptions in lemurc's words; the original stays as `__cause__`."""

import contextlib
import re
from collections.abc import Iterator

from lemurc.errors import ArtifactError, DeviceError, InternalError, LemurcError

_STATUS = re.compile(r"\b([A-Z][A-Z_]{4,}); ")
_LOST = ("ABORTED", "UNAVAILABLE", "DATA_LOSS")


@contextlib.contextmanager
def translated(doing: str, device: str) -> Iterator[None]:
    """Raise IREE's errors inside the block as LemurcError: "cannot <doing> on <device>"."""
    try:
        yield
    except LemurcError:
        raise
    except (RuntimeError, ValueError, IndexError, MemoryError, SystemError, OSError) as error:
        raise translate(error, doing, device) from error


def translate(error: BaseException, doing: str, device: str) -> LemurcError:
    text = summary(error)
    status = _STATUS.search(str(error))
    code = status.group(1) if status else ""
    message = f"cannot {doing} on {device}: {text}"
    if code == "RESOURCE_EXHAUSTED" or isinstance(error, MemoryError):
        return DeviceError(
            message, code="out-of-memory", where=device,
            hint="free memory on the device, use smaller inputs, or leave it out with devices=",
        )  # fmt: skip
    if code in _LOST:
        return DeviceError(
            message, code="device-lost", where=device,
            hint="look at the driver's log; leave the device out with devices=",
        )  # fmt: skip
    if code in ("INCOMPATIBLE", "NOT_FOUND", "UNIMPLEMENTED"):
        return ArtifactError(
            message, code="incompatible-module", where=device,
            hint="compile the model again for this device and this version of IREE",
        )  # fmt: skip
    return InternalError(message, where=device, hint="please report this with the message above")


def summary(error: BaseException) -> str:
    """The first line of IREE's message without its C++ source positions."""
    first = str(error).strip().partition("\n")[0]
    return re.sub(r"\S+\.(?:c|cc|h|cpp|inl):\d+: ", "", first)
