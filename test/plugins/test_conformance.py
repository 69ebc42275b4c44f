"""`lemurc conformance`: right targets pass, each kind of wrong one fails a case made for it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import lemurc
from lemurc.errors import DeviceError, UsageError
from lemurc.targets import registry
from lemurc.targets.base import LACKS, Architecture, DeviceModel, Target
from lemurc.tools.conformance import FAIL, NOT_OFFERED, PASS, names
from lemurc.tools.conformance_cases import GROUPS

Install = Callable[..., Path]


def test_every_group_has_cases_and_names_are_unique() -> None:
    found = names()
    assert len(set(found)) == len(found) > 100
    assert {name.partition("/")[0] for name in found} == set(GROUPS)


def test_the_command_tells_and_exits_by_what_failed(
    sample: Path, tmp_path: Path, install: Install
) -> None:
    install("wrong", **mutated("weights_reversed"))

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "lemurc", "conformance", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=os.environ)

    ran = call("--target", "mlir_jit", "--case", "weights/tied", "--case", "refusals/*", "--json")
    document = json.loads(ran.stdout)
    assert ran.returncode == 0
    assert document["ok"] and document["package"] == "lemurc-mlir-jit 0.1.0"
    assert {case["name"] for case in document["cases"]} == {
        "weights/tied", "refusals/arguments", "refusals/sizes_out_of_range",
        "refusals/values_out_of_range",
        "refusals/damaged_code",
    }  # fmt: skip
    ran = call("--target", "wrong", "--case", "weights/layers_float32", "--case", "shapes/moves")
    assert ran.returncode == 4
    assert "weights/layers_float32  fail" in ran.stdout
    assert "of wrong-package 1.0): 1 passed, 1 failed, 0 not offered" in ran.stdout
    assert "wrong is not conformant: 1 of 2 cases failed" in ran.stderr
    assert "not-conformant" in ran.stderr


# Wrong targets: the sample with one thing changed

COMPILER = """
    import io, sys
    import lemurc_mlir_jit.compiler as right
    from lemurc_mlir_jit.compiler import ir

    def changed(stage):
        context = ir.Context()
        right.torch_dialect.register_dialect(context)
        with context, ir.Location.unknown():
            right._run(ir.Module.create(), ("func.func(convert-torch-to-tmtensor)",))
            text = str(ir.Module.parse(stage))
            for old, new in {changes!r}:
                text = text.replace(old, new)
            stream = io.BytesIO()
            ir.Module.parse(text).operation.write_bytecode(stream)
        return stream.getvalue()

    def main():
        stage, output = sys.argv[1], sys.argv[sys.argv.index("-o") + 1]
        made = right.compile(changed(open(stage, "rb").read()))
        open(output, "wb").write(made + {tail})
"""

DEVICE = """
    import time
    import numpy as np
    from lemurc_mlir_jit import device as right
    from lemurc_mlir_jit.memory import Buffer

    kept = []

    class Shown(Buffer):
        def __init__(self, array):
            self.array, self.allocation = array, self
            self.address, self.shape, self.dtype = array.ctypes.data, array.shape, array.dtype

    class Stage(right.LoadedStage):
        def submit(self, inputs):
            {submit}
            return super().submit(inputs)

    class Device(right.Device):
        def upload(self, array):
            {upload}
            return super().upload(array)

        def download(self, buffer, array):
            super().download(buffer, array)
            {download}

        def load(self, code, weights):
            {load}
            return Stage(right.Executable.decode(code), weights, self._queue)

    class Driver(right.Driver):
        def open(self, number):
            return Device()

    DRIVER = Driver()
"""

REUSED = """made = self.__dict__.setdefault("made", super().submit(inputs))
            fresh = super().submit(inputs)
            fresh.wait(), made.wait()
            for old, new in zip(made.outputs, fresh.outputs):
                if old.shape == new.shape:
                    array = np.empty(new.shape, new.dtype)
                    new.copy_to(array)
                    old.__init__(), old.fill(new.allocation, new.address, new.shape, new.dtype)
            return made"""


@dataclass(frozen=True)
class Mutant:
    """What is wrong with it, the case that must fail, and what that must say."""

    changed: dict[str, object]
    case: str
    said: str


MUTANTS = {
    "unsigned_division": Mutant(
        {"changes": [("arith.divsi", "arith.divui")]}, "integers/division_i32", "entries differ"
    ),
    "rounds_up": Mutant(
        {"changes": [("math.floor", "math.ceil")]}, "elementwise/rounding_f32", "eager gives"
    ),
    "loses_nan": Mutant(
        {"changes": [("arith.maximumf", "arith.maxnumf"), ("une", "one"), ("uno", "false")]},
        "reductions/nan_wins",
        "NaN or infinities in other places",
    ),
    "adds_for_subtracts": Mutant(
        {"changes": [("arith.subf", "arith.addf")]}, "elementwise/arithmetic_f32", "eager gives"
    ),
    "never_the_same": Mutant(
        {"tail": "__import__('os').urandom(4)"}, "code/is_reproducible", "other bytes each time"
    ),
    "weights_reversed": Mutant(
        {"load": "weights = list(weights)[::-1]"}, "weights/layers_float32", "eager gives"
    ),
    "keeps_arguments": Mutant(
        {"upload": "kept.append(array.copy())"}, "calls/keep_no_memory", "400 calls of 64 KiB left"
    ),
    "keeps_stages": Mutant(
        {"load": "kept.append(bytearray(2 << 20))"},
        "calls/sessions_keep_no_memory",
        "16 sessions left the process",
    ),
    "reuses_results": Mutant(
        {"submit": REUSED}, "results/stay_on_the_device", "stayed on the device.*eager gives"
    ),
    "mixes_up_threads": Mutant(
        {"submit": "kept.append(inputs); time.sleep(0.002); inputs = kept[-1]"},
        "calls/threads",
        "thread .*eager gives",
    ),
    "shows_the_callers_memory": Mutant(
        {"upload": "return Shown(array)"}, "state/keeps_its_own_copy", "after .*eager gives"
    ),
    "flips_a_bit": Mutant(
        {"download": "array.reshape(-1).view(np.uint8)[-1:] ^= 64"},
        "mixed/every_assignment",
        "wrong:0.*cpu:0.*eager gives",
    ),
}


def mutated(mutant: str) -> dict[str, object]:
    changed = MUTANTS[mutant].changed
    compiler = COMPILER.format(changes=changed.get("changes", []), tail=changed.get("tail", "b''"))
    methods = {name: changed.get(name, "pass") for name in ("submit", "upload", "download", "load")}
    return {
        "compiler": compiler + "\n    raise SystemExit(main())\n",
        "device": DEVICE.format(**methods),
        "version": mutant,
    }


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_target_fails(mutant: str, sample: Path, install: Install) -> None:
    install("wrong", **mutated(mutant))
    case = MUTANTS[mutant].case
    right = lemurc.conformance("mlir_jit", cases=[case])
    assert right.ok, right.cases
    wrong = lemurc.conformance("wrong", cases=[case])
    assert not wrong.ok and wrong.count(FAIL) == 1, wrong.cases
    assert re.search(MUTANTS[mutant].said, wrong.cases[0].detail), wrong.cases


# What a target declares


def test_what_is_declared_illegal_is_not_offered(sample: Path, install: Install) -> None:
    install("poor", **mutated_nothing(), illegal_types=("f16", "i32"))
    result = lemurc.conformance("poor", cases=["products/matmul_f*", "integers/division_i32"])
    by_name = {case.name: case for case in result.cases}
    for name in ("products/matmul_f16", "integers/division_i32"):
        assert by_name[name].status == NOT_OFFERED and "type" in by_name[name].detail
    assert by_name["products/matmul_f32"].status == PASS
    assert result.ok


def test_a_target_that_offers_nothing_is_not_conformant(sample: Path, install: Install) -> None:
    install("poor", **mutated_nothing(), illegal_types=("f32",))
    result = lemurc.conformance("poor", cases=["products/matmul_f32"])
    assert result.count(FAIL) == 0 and not result.ok


def mutated_nothing() -> dict[str, object]:
    return {
        "compiler": "from lemurc_mlir_jit.compiler import main\nraise SystemExit(main())\n",
        "device": "from lemurc_mlir_jit.device import DRIVER\n",
    }


def test_what_a_target_lacks_must_be_known() -> None:
    model = DeviceModel({"f32": 1.0}, 1.0, 1.0, 1)
    archs = (Architecture("one", ()),)
    assert Target("toy", "", "", archs, ("one",), model, lacks=LACKS).lacks == LACKS
    with pytest.raises(ValueError, match="toy lacks speed; known: dynamic-softmax"):
        Target("toy", "", "", archs, ("one",), model, lacks=("speed",))


# Misuse


def test_without_a_device_nothing_is_shown(install: Install) -> None:
    install("toy")
    with pytest.raises(DeviceError, match="no installed package has a device of kind 'toy'"):
        lemurc.conformance("toy")


def test_a_case_that_does_not_exist() -> None:
    with pytest.raises(UsageError, match="no case of the conformance suite is called 'speed/x'"):
        lemurc.conformance("cpu", cases=["speed/x"])


def test_a_device_of_another_target() -> None:
    with pytest.raises(DeviceError, match="vmvx:0 is no device of the target cpu"):
        lemurc.conformance("cpu", device="vmvx:0")
    assert registry.get("cpu").lacks == ()
