"""Ways to run a PyTorch model on the CPU. Each returns `run(*arrays) -> array`.

A peer that is not installed raises ImportError and is skipped by name.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

Run = Callable[..., Any]
Args = tuple[torch.Tensor, ...]


def eager(model: nn.Module, args: Args, threads: int) -> Run:
    torch.set_num_threads(threads)

    def run(*arrays: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            result: np.ndarray = model(*map(torch.from_numpy, arrays)).numpy()
        return result

    return run


def inductor(model: nn.Module, args: Args, threads: int) -> Run:
    torch.set_num_threads(threads)
    torch._dynamo.reset()  # else it gives up compiling after so many of one class
    return eager(torch.compile(model), args, threads)  # type: ignore[arg-type]


def onnxruntime(model: nn.Module, args: Args, threads: int) -> Run:
    import onnxruntime as ort

    folder = Path(tempfile.mkdtemp(prefix="lemurc-bench-"))
    program = torch.onnx.export(model, args, dynamo=True, verbose=False)
    assert program is not None
    program.save(str(folder / "model.onnx"), external_data=True)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(
        str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
    )
    names = [i.name for i in session.get_inputs()]
    return lambda *arrays: session.run(None, dict(zip(names, arrays, strict=True)))[0]


def openvino(model: nn.Module, args: Args, threads: int) -> Run:
    import openvino as ov

    converted = ov.convert_model(model, example_input=args)
    compiled = ov.compile_model(converted, "CPU", {"INFERENCE_NUM_THREADS": threads})
    request = compiled.create_infer_request()
    return lambda *arrays: request.infer(list(arrays))[compiled.output(0)]


def plain_iree(model: nn.Module, args: Args, threads: int) -> Run:
    """torch-mlir and IREE as their documentation has it: no flags beyond the CPU."""
    import iree.compiler
    import iree.runtime as rt
    from torch_mlir import fx

    exported = torch.export.export(model, args)
    module = fx.export_and_import(
        exported, output_type="linalg-on-tensors", experimental_support_mutation=True
    )
    folder = Path(tempfile.mkdtemp(prefix="lemurc-bench-"))
    with open(folder / "model.mlirbc", "wb") as file:
        module.operation.write_bytecode(file)
    binary = Path(iree.compiler.__path__[0]) / "_mlir_libs" / "iree-compile"
    subprocess.run(
        [
            binary,
            folder / "model.mlirbc",
            "--iree-input-type=tm_tensor",
            "--iree-hal-target-device=local",
            "--iree-hal-local-target-device-backends=llvm-cpu",
            "--iree-llvmcpu-target-cpu=host",
            "-o",
            folder / "model.vmfb",
        ],
        check=True,
    )
    device = rt.get_device("local-task" if threads > 1 else "local-sync")
    config = rt.Config(device=device)
    vm_module = rt.VmModule.mmap(config.vm_instance, str(folder / "model.vmfb"))
    context = rt.SystemContext(vm_modules=[vm_module], config=config)
    function = context.modules[vm_module.name]["main"]

    def run(*arrays: np.ndarray) -> np.ndarray:
        result: np.ndarray = function(*arrays).to_host()
        return result

    return run


def lemurc(model: nn.Module, args: Args, threads: int) -> Run:
    """`threads` are those of `share_threads`: a process has one pool for all CPU devices."""
    import lemurc as compiler

    path = Path(tempfile.mkdtemp(prefix="lemurc-bench-")) / "model.lemur"
    compiler.compile(model, args, targets="cpu:host", output=path)
    session = compiler.load(path)
    return lambda *arrays: session(*arrays)


def share_threads(threads: int) -> None:
    """Threads of everything that runs on IREE; before the first of them is built."""
    from lemurc.runtime.devices import set_cpu_threads

    set_cpu_threads(threads)


PEERS: dict[str, Callable[[nn.Module, Args, int], Run]] = {
    "eager": eager,
    "inductor": inductor,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "plain-iree": plain_iree,
    "lemurc": lemurc,
}
DEFAULT_THREADS = len(os.sched_getaffinity(0))
