"""The programs that `lemurc probe` times, compiled into one artifact.

    product_f16_1024   a linear layer of 1024 x 1024, weights known, one per type and size
    read_f32           the exclusive or of each row: reads its input, writes next to nothing
    launches_1, _33    as many products of tiny matrices, each waiting for the one before

An artifact of them holds stages called `product_f16_1024@cuda` and no plan: nothing but the
probe runs it. A program that a target has no code for is left out, and the reason is kept.
"""

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import lemurc
from lemurc import assembly, exchange
from lemurc import manifest as mf
from lemurc.child import run_module
from lemurc.errors import InternalError
from lemurc.generation import generate
from lemurc.options import CompileOptions
from lemurc.pytree import LEAF, Tree
from lemurc.targets.cache import default_directory

if TYPE_CHECKING:
    from lemurc.targets.registry import TargetRequest

SIZES = (256, 1024, 4096)
LARGEST_WITH_WEIGHTS = 1024
ROW = 4096
CHAIN = 33
QUICK_TYPES = ("f32", "f16")
TYPES = ("f32", "f16", "bf16", "f64", "i8")
SUMS = {"f16": "f32", "bf16": "f32", "i8": "i32"}
"""The type that products of a type are added up in, where it is another."""

_IN_TREE: Tree = {
    "kind": "tuple",
    "items": [{"kind": "tuple", "items": [LEAF]}, {"kind": "dict", "keys": [], "items": []}],
}


@dataclass(frozen=True)
class ProbeProgram:
    """One function: its text, the type it computes in, and the weight it reads."""

    name: str
    dtype: str
    text: str
    inputs: tuple[mf.TensorSpec, ...]
    output: mf.TensorSpec
    weight: tuple[int, ...] = ()


def cached(requests: Sequence["TargetRequest"], quick: bool) -> Path:
    """The artifact for `requests`, made now unless it was made before."""
    named = [f"{request.target.name}:{'+'.join(request.archs)}" for request in requests]
    versions = [lemurc.__version__, *(f"{k} {v}" for k, v in assembly.producer().items())]
    texts = [program.text for program in programs(quick)]
    digest = hashlib.sha256("\n".join([*named, *versions, *texts]).encode()).hexdigest()
    path = default_directory() / "probes" / f"{digest[:24]}.lemur"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        export(path, requests, quick)
    return path


def export(path: Path, requests: Sequence["TargetRequest"], quick: bool = False) -> mf.Manifest:
    """Compile the programs for every target of `requests` and write them to `path`."""
    from lemurc.runtime.artifact import write

    stages: dict[str, mf.Stage] = {}
    entries: dict[str, bytes] = {}
    absent: dict[str, str] = {}
    wanted = programs(quick)
    for request in requests:
        illegal = request.target.illegal_types_of(request.archs)
        legal = [program for program in wanted if program.dtype not in illegal]
        for program in wanted:
            if program.dtype in illegal:
                reason = f"{request.target.name} has no {program.dtype}"
                absent[f"{request.target.name}:{program.name}"] = reason
        _compile(request, legal, stages, entries, absent)
    weights = {f"w_{program.name}": _weight(program) for program in wanted if program.weight}
    manifest = mf.Manifest(
        model="probe",
        functions={program.name: _function(program) for program in wanted},
        stages=stages,
        plans=(),
        producer=assembly.producer() | {f"absent {key}": why for key, why in absent.items()},
    )
    return write(path, manifest, entries, assembly.used_weights(weights, manifest))


def programs(quick: bool) -> list[ProbeProgram]:
    types = QUICK_TYPES if quick else TYPES
    sizes = SIZES[:2] if quick else SIZES
    found = [_product(dtype, size) for dtype in types for size in sizes]
    found += [_read(dtype) for dtype in types]
    return [*found, _launches(1), _launches(CHAIN)]


def _compile(
    request: "TargetRequest",
    wanted: Sequence[ProbeProgram],
    stages: dict[str, mf.Stage],
    entries: dict[str, bytes],
    absent: dict[str, str],
) -> None:
    target = request.target
    options = CompileOptions(verify=False, golden="none")
    archs = tuple(exchange.TargetArch(target.name, arch) for arch in request.archs)
    system = {"devices": [target.system_device(target.name, request.archs)], "pins": []}
    with tempfile.TemporaryDirectory(prefix="lemurc-probe-") as name:
        folder = Path(name)
        text = "\n".join(program.text for program in wanted)
        exchange.write_request(
            folder, text.encode(), exchange.Request((system,), archs, level="linalg")
        )
        run_module("lemurc.lowering", folder, error_file=exchange.ERROR)
        response = exchange.read_response(folder)
        inputs = [(stage, ir) for stage, lowered in response.stages.items() for ir in lowered.ir]
        compiled = [(target.name, arch) for arch in request.archs]
        modules = generate(inputs, response.stages, compiled, folder, options, lambda: None, [])
        if response.parameters is not None:
            raise InternalError("weights of a probe program were folded")
    steps = response.plans[0].steps
    for program in wanted:
        (step,) = steps[program.name]
        lowered = response.stages[step.stage]
        files = []
        for ir in lowered.ir:
            code = modules[step.stage, ir.target, ir.arch]
            if not isinstance(code, bytes):
                absent[f"{target.name}:{program.name}"] = f"IREE has no code for {ir.arch}"
                continue
            files.append(assembly.module_file(ir, code))
            entries[files[-1].file] = code
        if files:
            stages[f"{program.name}@{target.name}"] = mf.Stage(
                lowered.inputs,
                lowered.outputs,
                lowered.cost,
                lowered.ops,
                tuple(files),
                work=lowered.work,
            )


def _function(program: ProbeProgram) -> mf.Function:
    return mf.Function(
        inputs=program.inputs,
        outputs=(program.output,),
        results=("v0",),
        in_tree=_IN_TREE,
        out_tree=LEAF,
    )


def _weight(program: ProbeProgram) -> "np.ndarray":
    numbers = np.random.default_rng(0).integers(-8, 8, program.weight)
    return numbers.astype(np.dtype(mf.DTYPES[program.dtype]))


def _product(dtype: str, size: int) -> ProbeProgram:
    """A linear layer, so that kernels for known weights are used; two inputs where the
    weights would be large."""
    name, total = f"product_{dtype}_{size}", SUMS.get(dtype, dtype)
    square, summed = f"tensor<{size}x{size}x{dtype}>", f"tensor<{size}x{size}x{total}>"
    known = size <= LARGEST_WITH_WEIGHTS
    zero = "0.0" if "f" in total else "0"
    body = f"""
func.func private @linear_{name}(%x: {square}, %w: {square}) -> {summed} attributes {{
    lemur.composite = "linear", lemur.module_path = "{name}", no_inline}} {{
  %z = arith.constant {zero} : {total}
  %e = tensor.empty() : {square}
  %t = linalg.transpose ins(%w : {square}) outs(%e : {square}) permutation = [1, 0]
  %o = tensor.empty() : {summed}
  %f = linalg.fill ins(%z : {total}) outs(%o : {summed}) -> {summed}
  %r = linalg.matmul ins(%x, %t : {square}, {square}) outs(%f : {summed}) -> {summed}
  return %r : {summed}
}}"""
    mark = f'lemur.param = "w_{name}"' if known else "lemur.input = 1 : i64"
    text = f"""{body}
func.func @{name}(%x: {square} {{lemur.input = 0 : i64}}, %w: {square} {{{mark}}})
    -> ({summed} {{lemur.output = 0 : i64}}) {{
  %r = call @linear_{name}(%x, %w) {{no_inline}} : ({square}, {square}) -> {summed}
  return %r : {summed}
}}"""
    spec = mf.TensorSpec("x", mf.DTYPES[dtype], (size, size))
    inputs = (spec,) if known else (spec, mf.TensorSpec("w", mf.DTYPES[dtype], (size, size)))
    output = mf.TensorSpec("y", mf.DTYPES[total], (size, size))
    return ProbeProgram(name, dtype, text, inputs, output, (size, size) if known else ())


def _read(dtype: str) -> ProbeProgram:
    """As integers of the same width: how fast memory is, not arithmetic."""
    width = f"i{np.dtype(mf.DTYPES[dtype]).itemsize * 8}"
    rows, column = f"tensor<?x{ROW}x{width}>", f"tensor<?x{width}>"
    text = f"""
func.func @read_{dtype}(%x: {rows} {{lemur.input = 0 : i64, lemur.dim_max = [16384, {ROW}]}})
    -> ({column} {{lemur.output = 0 : i64}}) {{
  %z = arith.constant 0 : {width}
  %c0 = arith.constant 0 : index
  %d = tensor.dim %x, %c0 : {rows}
  %e = tensor.empty(%d) : {column}
  %f = linalg.fill ins(%z : {width}) outs(%e : {column}) -> {column}
  %r = linalg.reduce ins(%x : {rows}) outs(%f : {column}) dimensions = [1]
    (%a: {width}, %b: {width}) {{
      %m = arith.xori %a, %b : {width}
      linalg.yield %m : {width}
    }}
  return %r : {column}
}}"""
    rows_dim = mf.SymbolicDim("n", 1, 1 << 20)
    inputs = (mf.TensorSpec("x", mf.DTYPES[width], (rows_dim, ROW)),)
    output = mf.TensorSpec("y", mf.DTYPES[width], (rows_dim,))
    return ProbeProgram(f"read_{dtype}", dtype, text, inputs, output)


def _launches(count: int) -> ProbeProgram:
    square, name = "tensor<16x16xf32>", f"launches_{count}"
    text = f"""
func.func @{name}(%v0: {square} {{lemur.input = 0 : i64}})
    -> ({square} {{lemur.output = 0 : i64}}) {{
{"".join(_links(count, square))}  return %v{count} : {square}
}}"""
    spec = mf.TensorSpec("x", "float32", (16, 16))
    return ProbeProgram(name, "f32", text, (spec,), spec)


def _links(count: int, square: str) -> Iterator[str]:
    yield f"  %z = arith.constant 0.0 : f32\n  %e = tensor.empty() : {square}\n"
    yield f"  %f = linalg.fill ins(%z : f32) outs(%e : {square}) -> {square}\n"
    for n in range(count):
        yield (
            f"  %v{n + 1} = linalg.matmul ins(%v{n}, %v{n} : {square}, {square}) "
            f"outs(%f : {square}) -> {square}\n"
        )
