"""IREE's exceptions in lemurc's words; the original stays as `__cause__`."""

import re
from abc import ABC, abstractmethod
from types import TracebackType

from lemurc.errors import ArtifactError, DeviceError, InternalError, LemurcError

_STATUS = re.compile(r"\b([A-Z][A-Z_]{4,}); ")
FROM_IREE = (RuntimeError, ValueError, IndexError, MemoryError, SystemError, OSError)
FAILURES = ("out-of-memory", "device-lost", "device-failed", "device-hung")
"""Codes of the errors after which another device may still answer."""

_LOST = ("ABORTED", "UNAVAILABLE", "DATA_LOSS")
_LOST_SAYS = re.compile(
    r"VK_ERROR_DEVICE_LOST"
    r"|CUDA_ERROR_(ASSERT|CONTEXT_IS_DESTROYED|DEVICE_UNAVAILABLE|ECC_UNCORRECTABLE"
    r"|HARDWARE_STACK_ERROR|ILLEGAL_ADDRESS|ILLEGAL_INSTRUCTION|INVALID_ADDRESS_SPACE|INVALID_PC"
    r"|LAUNCH_FAILED|LAUNCH_TIMEOUT|MISALIGNED_ADDRESS|NVLINK_UNCORRECTABLE)"
    r"|hipError(Assert|ContextIsDestroyed|ECCNotCorrectable|IllegalAddress|LaunchFailure"
    r"|LaunchTimeOut)"
)
"""Of drivers, after which nothing runs on the device; IREE's status says as little as INTERNAL."""

_MEMORY_SAYS = re.compile(
    r"VK_ERROR_OUT_OF_(HOST|DEVICE)_MEMORY|CUDA_ERROR_OUT_OF_MEMORY|hipErrorOutOfMemory"
)


class translating(ABC):
    """Raise errors inside the block as what `meaning` says of them.

    A class, since this is on the path of every call and a generator costs four times as much.
    """

    __slots__ = ("_device", "_doing")

    def __init__(self, doing: str, device: str) -> None:
        self._doing = doing
        self._device = device

    @staticmethod
    @abstractmethod
    def meaning(error: BaseException, doing: str, device: str) -> LemurcError | None:
        """Of an error that came from doing something on a device; None: it is let through."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            meaning = self.meaning(error, self._doing, self._device)
            if meaning is not None:
                try:
                    raise meaning from error
                finally:
                    del meaning  # it refers to this frame


class translated(translating):
    """Raise IREE's errors inside the block as LemurcError: "cannot <doing> on <device>"."""

    __slots__ = ()

    @staticmethod
    def meaning(error: BaseException, doing: str, device: str) -> LemurcError | None:
        return translate(error, doing, device) if isinstance(error, FROM_IREE) else None


def translate(error: BaseException, doing: str, device: str) -> LemurcError:
    text = summary(error)
    # UNKNOWN is put around errors that say more
    code = next((code for code in _STATUS.findall(str(error)) if code != "UNKNOWN"), "")
    message = f"cannot {doing} on {device}: {text}"
    no_memory = code == "RESOURCE_EXHAUSTED" or _MEMORY_SAYS.search(str(error))
    if no_memory or isinstance(error, MemoryError):
        return out_of_memory(message, device)
    if "empty buffer range" in text:
        return DeviceError(
            f"{device} cannot compute on tensors without elements", code="empty-tensor",
            where=device, hint="skip the call when an input is empty, or load with devices=['cpu']",
        )  # fmt: skip
    if code in _LOST or _LOST_SAYS.search(str(error)):
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


def out_of_memory(message: str, device: str) -> DeviceError:
    return DeviceError(
        message,
        code="out-of-memory",
        where=device,
        hint="free memory on the device, use smaller inputs, or leave it out with devices=",
    )


def missing_library(error: BaseException) -> str:
    """Says so in a few words when a driver lacks its library, else nothing."""
    found = re.search(r"library [^;]*?'(lib[\w.]+)'[^;]*not available", str(error))
    return f"{found[1]} is not installed" if found else ""


def summary(error: BaseException) -> str:
    """The first line of IREE's message without its C++ source positions."""
    first = str(error).strip().partition("\n")[0]
    return re.sub(r"\S+\.(?:c|cc|h|cpp|inl):\d+: ", "", first)
