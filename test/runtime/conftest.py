"""Tiny artifacts from hand-written stages, so that these tests need no other part."""

import dataclasses
import importlib.util
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from lemurc.manifest import (
    Cost,
    Device,
    Function,
    Manifest,
    ModuleFile,
    Plan,
    Prediction,
    Stage,
    Step,
    SymbolicDim,
    TensorSpec,
)
from lemurc.runtime.artifact import write

_FLAGS = {
    "cpu": ["--iree-hal-target-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=generic"],
    "vulkan": ["--iree-hal-target-backends=vulkan-spirv", "--iree-vulkan-target=llvmpipe"],
}
_ARCH = {"cpu": "x86-64", "vulkan": "llvmpipe", "faulty": "any"}
_NAMES = {"f32": "float32", "i8": "int8", "i64": "int64", "bf16": "bfloat16", "i1": "bool"}

Dims = tuple[int | SymbolicDim, ...]


@dataclass(frozen=True)
class StageText:
    """`body` computes %r from one element of each operand: %a, %b, ... inputs, then weights.

    `text` replaces all of that by a module written out. `numpy` is the same for the device of
    faulty_device.py: an expression of `x`, the inputs, and `w`, the weights.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    body: str
    parameters: tuple[str, ...] = ()
    shape: Dims = (4,)
    element: str = "f32"
    text: str = ""
    numpy: str = ""

    def mlir(self) -> str:
        if self.text:
            return self.text
        tensor = self.tensor_type()
        operands = [f"%x{k}" for k in range(len(self.inputs))]
        loads = []
        for k in range(len(self.parameters)):
            loads.append(f"%w{k} = util.global.load @p{k} : {tensor}")
            operands.append(f"%w{k}")
        letters = [f"%{'abcdefgh'[k]}: {self.element}" for k in range(len(operands))]
        sizes = [
            (axis, f"%c{axis} = arith.constant {axis} : index\n    "
             f"%d{axis} = tensor.dim %x0, %c{axis} : {tensor}")
            for axis, dim in enumerate(self.shape) if not isinstance(dim, int)
        ]  # fmt: skip
        axes = ", ".join(f"d{k}" for k in range(len(self.shape)))
        maps = ", ".join([f"affine_map<({axes}) -> ({axes})>"] * (len(operands) + 1))
        kinds = ", ".join(['"parallel"'] * len(self.shape))
        types = ", ".join([tensor] * len(operands))
        results = ", ".join(["%r"] * len(self.outputs))
        head = "\n  ".join(
            f'util.global private @p{k} = #flow.parameter.named<"model"::"p{k}"> : {tensor}'
            for k in range(len(self.parameters))
        )
        return f"""module @stage {{
  {head}
  func.func @run({", ".join(f"%x{k}: {tensor}" for k in range(len(self.inputs)))}) -> ({
            ", ".join([tensor] * len(self.outputs))
        }) {{
    {" ".join(loads)}
    {" ".join(text for _, text in sizes)}
    %e = tensor.empty({", ".join(f"%d{axis}" for axis, _ in sizes)}) : {tensor}
    %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
      ins({", ".join(operands)} : {types}) outs(%e : {tensor}) {{
      ^bb0({", ".join(letters)}, %out: {self.element}):
        {self.body}
        linalg.yield %r : {self.element}
    }} -> {tensor}
    return {results} : {", ".join([tensor] * len(self.outputs))}
  }}
}}"""

    def tensor_type(self) -> str:
        dims = "".join(f"{d if isinstance(d, int) else '?'}x" for d in self.shape)
        return f"tensor<{dims}{self.element}>"


@dataclass
class Lab:
    """Compiles stages (each text once a session) and writes artifacts."""

    folder: Path
    compiled: dict[tuple[str, str], bytes] = field(default_factory=dict)

    def compile(self, text: str, target: str = "cpu") -> bytes:
        if (text, target) not in self.compiled:
            found = importlib.util.find_spec("iree.compiler")
            if found is None or found.origin is None:
                pytest.skip("needs iree.compiler to build its stages")
            tool = Path(found.origin).parent / "_mlir_libs" / "iree-compile"
            flags = ["--iree-execution-model=async-external", "--iree-input-type=tm_tensor"]
            done = subprocess.run(
                [tool, "-", *flags, *_FLAGS[target]],
                input=text.encode(), capture_output=True, timeout=120,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr.decode()[:2000]
            self.compiled[text, target] = done.stdout
        return self.compiled[text, target]

    def write(
        self,
        name: str,
        stages: dict[str, StageText],
        plans: Sequence[dict[str, str]],
        results: Sequence[str],
        *,
        weights: dict[str, np.ndarray] | None = None,
        state_updates: dict[str, str] | None = None,
        targets: Sequence[str] = ("cpu",),
        edit: Callable[[Manifest], Manifest] = lambda manifest: manifest,
    ) -> Path:
        """An artifact with one function `main`. `plans` map stage to device name.

        Its inputs are those the stages read, all of the first stage's type.
        """
        first = next(iter(stages.values()))
        read = {ref for stage in stages.values() for ref in stage.inputs} | set(results)
        count = len({ref for ref in read if ref.startswith("input:")})
        dtype = _NAMES[first.element]
        inputs = tuple(TensorSpec(f"x{k}", dtype, first.shape) for k in range(count))
        leaf = {"kind": "leaf"}
        in_tree = {
            "kind": "tuple",
            "items": [
                {"kind": "tuple", "items": [leaf] * count},
                {"kind": "dict", "keys": [], "items": []},
            ],
        }
        out_tree = leaf if len(results) == 1 else {"kind": "tuple", "items": [leaf] * len(results)}
        function = Function(
            inputs=inputs,
            outputs=tuple(TensorSpec(f"y{k}", dtype, first.shape) for k in range(len(results))),
            results=tuple(results),
            in_tree=in_tree,
            out_tree=out_tree,
            argument_names=tuple(spec.name for spec in inputs),
            state_updates=dict(state_updates or {}),
        )
        entries: dict[str, bytes | Path] = {}
        described = {}
        for key, stage in stages.items():
            modules = []
            for target in targets:
                file = f"modules/{key}.{target}.vmfb"
                ours = target == "faulty"
                entries[file] = stage.numpy.encode() if ours else self.compile(stage.mlir(), target)
                modules.append(ModuleFile(target, _ARCH[target], file, stage.parameters))
            described[key] = Stage(
                stage.inputs, stage.outputs, Cost(), {"fused": 1}, tuple(modules)
            )
        manifest = Manifest(
            model=name,
            functions={"main": function},
            stages=described,
            plans=tuple(_plan(plan) for plan in plans),
            state=tuple(state_updates or ()),
        )
        path = self.folder / f"{name}.lemur"
        write(path, edit(manifest), entries, weights or {})
        return path


def _plan(assignment: dict[str, str]) -> Plan:
    names = list(dict.fromkeys(assignment.values()))
    seconds = {name: 1.0 for name in names}
    return Plan(
        devices=tuple(Device(name, name.partition(":")[0]) for name in names),
        steps={"main": tuple(Step(stage, device) for stage, device in assignment.items())},
        predicted={"main": Prediction(1.0, 64, len(names) - 1, seconds)},
    )


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("artifacts"))


@pytest.fixture(scope="session")
def stage() -> type[StageText]:
    return StageText


ADD_WEIGHT = StageText(("input:0",), ("v0",), "%r = arith.addf %a, %b : f32", ("w",))


@pytest.fixture(scope="session")
def adder(lab: Lab) -> Path:
    """y = x + w, w = [0, 1, 2, 3]"""
    weights = {"w": np.arange(4, dtype=np.float32)}
    return lab.write("adder", {"s": ADD_WEIGHT}, [{"s": "cpu:0"}], ["v0"], weights=weights)


@pytest.fixture(scope="session")
def counter(lab: Lab) -> Path:
    """y = total + x; total is then y"""
    body = "%r = arith.addf %a, %b : f32"
    add = StageText(("input:0", "state:total"), ("v0",), body)
    weights = {"total": np.zeros(4, np.float32)}
    return lab.write(
        "counter", {"s": add}, [{"s": "cpu:0"}], ["v0"],
        weights=weights, state_updates={"total": "v0"},
    )  # fmt: skip


def replace_function(manifest: Manifest, **changes: object) -> Manifest:
    function = dataclasses.replace(manifest.functions["main"], **changes)  # type: ignore[arg-type]
    return dataclasses.replace(manifest, functions={"main": function})


@pytest.fixture(scope="session")
def edit_function() -> Callable[..., Manifest]:
    return replace_function


@pytest.fixture(scope="session")
def vulkan() -> None:
    from lemurc.runtime.devices import discover

    found = discover(("vulkan",))
    if not found.names["vulkan"]:
        pytest.skip(found.why_not["vulkan"])
