"""Stages to compile, and a way to run what comes out."""

import ctypes
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lemurc.targets.cpu import host_architecture, library

LINEAR_STAGE = """
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>
module @stage0 attributes {lemur.device = "cpu", lemur.ops = {linear = 1 : i64}} {
  func.func @run(%x: tensor<4x8xf32> {lemur.value = "input:0"},
                 %w: tensor<16x8xf32> {lemur.param = "enc.w"},
                 %b: tensor<16xf32> {lemur.param = "enc.b"})
      -> (tensor<4x16xf32> {lemur.value = "v7"}) {
    %0 = "func.call"(%x, %w, %b) <{callee = @linear_0, no_inline}> {lemur.device = "cpu"}
      : (tensor<4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    return %0 : tensor<4x16xf32>
  }
  func.func private @linear_0(%x: tensor<4x8xf32>, %w: tensor<16x8xf32>, %b: tensor<16xf32>)
      -> tensor<4x16xf32>
      attributes {lemur.composite = "linear", lemur.module_path = "enc", no_inline} {
    %zero = arith.constant 0.0 : f32
    %t = tensor.empty() : tensor<8x16xf32>
    %wt = linalg.transpose ins(%w : tensor<16x8xf32>) outs(%t : tensor<8x16xf32>)
      permutation = [1, 0]
    %e = tensor.empty() : tensor<4x16xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x16xf32>) -> tensor<4x16xf32>
    %m = linalg.matmul ins(%x, %wt : tensor<4x8xf32>, tensor<8x16xf32>)
      outs(%f : tensor<4x16xf32>) -> tensor<4x16xf32>
    %r = linalg.generic {indexing_maps = [#id, #row, #id],
                         iterator_types = ["parallel", "parallel"]}
      ins(%m, %b : tensor<4x16xf32>, tensor<16xf32>) outs(%e : tensor<4x16xf32>) {
    ^bb0(%p: f32, %q: f32, %o: f32):
      %s = arith.addf %p, %q : f32
      linalg.yield %s : f32
    } -> tensor<4x16xf32>
    return %r : tensor<4x16xf32>
  }
}
"""

Runner = Callable[..., list[np.ndarray]]


@pytest.fixture
def linear_stage() -> str:
    """x @ w.T + b as a level S stage."""
    return LINEAR_STAGE


@pytest.fixture
def run_module() -> Runner:
    """run_module(vmfb, inputs, weights, driver="local-task", outputs=1) -> arrays."""
    return _run_module


def _run_module(
    module: bytes,
    inputs: list[np.ndarray],
    weights: list[np.ndarray],
    driver: str = "local-task",
    outputs: int = 1,
) -> list[np.ndarray]:
    import iree.runtime as rt

    instance = rt.VmInstance()
    device = rt.get_device(driver)
    index = rt.ParameterIndex()
    kept = [np.ascontiguousarray(weight).reshape(-1).view(np.uint8) for weight in weights]
    for position, weight in enumerate(kept):
        index.add_buffer(f"p{position}", weight)
    provider = index.create_provider(scope="model")
    modules = [
        rt.create_hal_module(instance, device),
        rt.create_io_parameters_module(instance, provider),
        rt.VmModule.copy_buffer(instance, module),
    ]
    context = rt.VmContext(instance, modules)
    arguments = rt.VmVariantList(len(inputs) + 2)
    for array in inputs:
        array = np.ascontiguousarray(array)
        element = rt.array_interop.map_dtype_to_element_type(array.dtype)
        view = device.allocator.allocate_buffer_copy(
            rt.MemoryType.DEVICE_LOCAL,
            int(rt.BufferUsage.DEFAULT) | int(rt.BufferUsage.MAPPING),
            device,
            array,
            element,
        )
        arguments.push_ref(view)
    semaphore = device.create_semaphore(0)
    arguments.push_ref(rt.HalFence(1))
    arguments.push_ref(rt.HalFence.create_at(semaphore, 1))
    results = rt.VmVariantList(outputs)
    context.invoke(modules[-1].lookup_function("run"), arguments, results)
    semaphore.wait(1)
    return [
        _to_host(rt, device, results.get_as_object(k, rt.HalBufferView)) for k in range(outputs)
    ]


def _to_host(rt, device, view) -> np.ndarray:
    buffer = view.get_buffer()
    staging = device.allocator.allocate_buffer(
        rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE,
        rt.BufferUsage.TRANSFER | rt.BufferUsage.MAPPING,
        view.byte_length,
    )
    done = device.create_semaphore(0)
    device.queue_copy(buffer, staging, [], [(done, 1)])
    done.wait(1)
    dtype = rt.HalElementType.map_to_dtype(view.element_type)
    return np.array(staging.map().asarray(tuple(view.shape), dtype))


KERNEL_SOURCES = Path(__file__).parents[2] / "targets" / "cpu" / "kernels"
KERNEL_FLAGS = (
    "-O3 -ffreestanding -fno-builtin -fno-sanitize=undefined -fPIC -shared -nostdlib"
).split()


class Guarded:
    """An output with sentinels around it, to notice a write outside."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        size = math.prod(shape)
        self._room = np.full(size + 32, 12345.0, np.float32)
        self.array = self._room[16 : 16 + size].reshape(shape)

    def check(self) -> np.ndarray:
        assert (self._room[:16] == 12345.0).all() and (self._room[-16:] == 12345.0).all()
        return self.array


class KernelLibrary:
    """The C kernels, to be called without IREE."""

    guarded = Guarded

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))

    def call(self, name: str, *arguments) -> None:
        """Arrays are passed as a pointer to their data and offset 0."""
        function = getattr(self._library, f"lemurc_{name}")
        converted = []
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                converted += [ctypes.c_void_p(argument.ctypes.data), ctypes.c_long(0)]
            elif isinstance(argument, float):
                converted.append(ctypes.c_double(argument))
            else:
                converted.append(ctypes.c_long(argument))
        function.restype = None
        function(*converted)

    @staticmethod
    def unaligned(array: np.ndarray) -> np.ndarray:
        """A copy whose data starts 4 bytes after a multiple of 32."""
        room = np.zeros(array.size + 16, np.float32)
        start = next(k for k in range(16) if (room.ctypes.data + 4 * k) % 32 == 4)
        view = room[start : start + array.size].reshape(array.shape)
        view[...] = array
        return view


@pytest.fixture(scope="session", params=["x86_64_v3", "x86_64_v4"])
def kernels(request, tmp_path_factory):
    """The kernels as a shared library, for each instruction set that this CPU has."""
    pytest.importorskip("ziglang")
    if request.param not in library.ISAS.get(host_architecture(), ()):
        pytest.skip(f"this CPU is no {request.param}")
    path = tmp_path_factory.mktemp("kernels") / "kernels.so"
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-linux-gnu"]
    sources = [str(source) for source in sorted(KERNEL_SOURCES.glob("*.c"))]
    command = [*compiler, f"-mcpu={request.param}", *KERNEL_FLAGS, *sources, "-o", str(path)]
    subprocess.run(command, check=True, timeout=240)
    return KernelLibrary(path)
