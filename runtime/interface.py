"""What a device that is not IREE's looks like to the runtime: four small protocols.

    Driver.open -> Device.upload, Device.load -> Executable.submit -> Submission

A package publishes its driver under the entry point group `lemurc.devices`. Threads call
these methods at once, so a device orders its own work: what is submitted runs in the order
of submission, or as if it did, and an input may be an output of a submission that is not done.
An exception of any of them is told to the user as a failure of the device, with its text;
MemoryError says that it is full. One that does not return is left behind, where the user set a
timeout, and its device is not used on.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class Buffer(Protocol):
    """A tensor in memory of the device, freed when nothing refers to it any more.

    `shape` and `dtype`, NumPy's or ml_dtypes', of an output are known once its submission is
    done. What a buffer holds never changes after that.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype: ...


class Submission(Protocol):
    """Work that was queued, and may be done already."""

    @property
    def outputs(self) -> Sequence[Buffer]:
        """One buffer for each result of the stage, whose memory is no input's."""

    def wait(self) -> None:
        """Block until it is done, or raise why it could not be. Any thread may wait, twice too."""


class Executable(Protocol):
    """One stage, ready to run."""

    def submit(self, inputs: Sequence[Buffer]) -> Submission:
        """Queue one execution; the inputs, but for weights, in the order of the stage."""


class Device(Protocol):
    def upload(self, array: np.ndarray) -> Buffer:
        """A copy of `array`, which is in row-major order; the caller may change it at once."""

    def download(self, buffer: Buffer, array: np.ndarray) -> None:
        """Copy a finished `buffer` into `array`, of its shape and in row-major order.

        Only bytes count: `array` may be unsigned where the buffer is signed.
        """

    def load(self, code: memoryview, weights: Sequence[Buffer]) -> Executable:
        """What the target's compiler wrote, with the weights in the order of its parameters.

        `code` is what was hashed, and mapped read-only from the artifact for as long as
        anything refers to it. Raises ValueError when it is of another version or chip.
        """


class Driver(Protocol):
    def devices(self) -> Sequence[str]:
        """A description of each device of this machine, to print. Raises RuntimeError with
        the reason when there is none, such as a library that is missing."""

    def open(self, number: int) -> Device:
        """The device at a position of `devices`; it is opened once per process."""
