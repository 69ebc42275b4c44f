"""Stages to compile, and a way to run what comes out."""

from collections.abc import Callable

import numpy as np
import pytest

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
