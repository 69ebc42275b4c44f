"""A device of another package that computes with NumPy, and fails where it is told to.

    faults[0, "submit"] = fail     # called with nothing when device 0 is given a stage

It is copied to a folder of its own and found there by its entry point.
"""

from collections.abc import Callable, Sequence

import numpy as np

faults: dict[tuple[int, str], Callable[[], None]] = {}
"""By device and step: open, upload, load, submit, wait, download; "devices" of device 0 is when it
is asked what there is."""

count = 1
"""How many devices there are."""


def meet(number: int, step: str) -> None:
    fault = faults.get((number, step))
    if fault is not None:
        fault()


class Buffer:
    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype


class Submission:
    def __init__(self, number: int, outputs: Sequence[Buffer]) -> None:
        self._number = number
        self.outputs = outputs

    def wait(self) -> None:
        meet(self._number, "wait")


class Stage:
    def __init__(self, number: int, expression: str, weights: Sequence[Buffer]) -> None:
        self._number = number
        self._expression = expression
        self._weights = [weight.array for weight in weights]

    def submit(self, inputs: Sequence[Buffer]) -> Submission:
        meet(self._number, "submit")
        known = {"x": [buffer.array for buffer in inputs], "w": self._weights, "np": np}
        return Submission(self._number, [Buffer(eval(self._expression, known))])


class Device:
    def __init__(self, number: int) -> None:
        self._number = number

    def upload(self, array: np.ndarray) -> Buffer:
        meet(self._number, "upload")
        return Buffer(array.copy())

    def download(self, buffer: Buffer, array: np.ndarray) -> None:
        meet(self._number, "download")
        array[...] = buffer.array

    def load(self, code: memoryview, weights: Sequence[Buffer]) -> Stage:
        meet(self._number, "load")
        return Stage(self._number, bytes(code).decode(), weights)


class Driver:
    def devices(self) -> Sequence[str]:
        meet(0, "devices")
        return ["NumPy, told to fail"] * count

    def open(self, number: int) -> Device:
        meet(number, "open")
        return Device(number)


DRIVER = Driver()
