"""The device: a queue that one thread works off, calling code that MLIR's engine made.

It implements the protocols of lemurc/runtime/interface.py. Work runs in the order of
submission, so an output that is an input later is there by then.
"""

import ctypes
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from lemurc_mlir_jit.executable import Executable
from lemurc_mlir_jit.memory import Allocation, Buffer


class Driver:
    def devices(self) -> Sequence[str]:
        try:
            import torch_mlir.execution_engine  # noqa: F401
        except ImportError as error:
            raise RuntimeError(f"torch-mlir's execution engine is missing: {error}") from error
        return ["MLIR's execution engine"]

    def open(self, number: int) -> "Device":
        return Device()


class Device:
    def __init__(self) -> None:
        self._queue = ThreadPoolExecutor(1, "mlir-jit")

    def upload(self, array: np.ndarray) -> Buffer:
        return Buffer.copy_of(array)

    def download(self, buffer: Buffer, array: np.ndarray) -> None:
        buffer.copy_to(array)

    def load(self, code: memoryview, weights: Sequence[Buffer]) -> "LoadedStage":
        return LoadedStage(Executable.decode(code), weights, self._queue)


class LoadedStage:
    """Machine code of one stage, made when it is loaded."""

    def __init__(
        self, executable: Executable, weights: Sequence[Buffer], queue: ThreadPoolExecutor
    ) -> None:
        from torch_mlir import ir
        from torch_mlir.execution_engine import ExecutionEngine

        with ir.Context(), ir.Location.unknown():
            module = ir.Module.parse(executable.bytecode)
            self._engine = ExecutionEngine(module, opt_level=3)
        self._run = self._engine.lookup("run")
        self._weights = tuple(weights)
        self._queue = queue
        self._arguments = executable.arguments
        self._results = [(np.dtype(dtype), rank) for dtype, rank in executable.results]

    def submit(self, inputs: Sequence[Buffer]) -> "Submission":
        outputs = [Buffer() for _ in self._results]
        arguments = [*inputs, *self._weights]
        return Submission(outputs, self._queue.submit(self._call, arguments, outputs))

    def _call(self, arguments: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        """Calls the function by MLIR's C interface: a pointer to the results' descriptors,
        then one to the descriptor of each argument."""
        fields = [_described(argument) for argument in arguments]
        sizes = [_descriptor_length(rank) for _, rank in self._results]
        results = (ctypes.c_int64 * sum(sizes))()
        descriptors = [results, *fields] if sizes else fields
        pointers = [ctypes.c_void_p(ctypes.addressof(each)) for each in descriptors]
        packed = (ctypes.c_void_p * len(pointers))(*map(ctypes.addressof, pointers))
        self._run(packed)
        start = 0
        owned: dict[int, Allocation] = {}
        for output, (dtype, rank), size in zip(outputs, self._results, sizes, strict=True):
            allocated, aligned, offset, *rest = results[start : start + size]
            if allocated not in owned:  # two results may lie in one
                owned[allocated] = Allocation(allocated)
            address = aligned + offset * dtype.itemsize
            output.fill(owned[allocated], address, rest[:rank], dtype)
            start += size


class Submission:
    def __init__(self, outputs: Sequence[Buffer], done: "Future[None]") -> None:
        self.outputs = outputs
        self._done = done

    def wait(self) -> None:
        self._done.result()


def _described(buffer: Buffer) -> "ctypes.Array[ctypes.c_int64]":
    """A memref descriptor: allocated and aligned pointer, offset, sizes, strides."""
    if buffer.allocation is None:
        raise RuntimeError("an input was not computed: the work before this failed")
    strides = []
    step = 1
    for size in reversed(buffer.shape):
        strides.append(step)
        step *= size
    words = [buffer.allocation.address, buffer.address, 0, *buffer.shape, *reversed(strides)]
    return (ctypes.c_int64 * len(words))(*words)


def _descriptor_length(rank: int) -> int:
    return 3 + 2 * rank


DRIVER = Driver()
