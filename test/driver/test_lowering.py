"""The lowering process: it steps down where a pass fails, says what broke, keeps its IR."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from torch_mlir import ir

from lemurc import exchange, lowering
from lemurc.child import last_words, run_module
from lemurc.dialects.context import new_context
from lemurc.errors import InternalError
from lemurc.passes import pipelines
from lemurc.passes.base import Pass, PassError
from lemurc.targets.registry import get

TEXT = """
func.func @main(%x: tensor<2xf32> {lemur.input = 0 : i64})
    -> (tensor<2xf32> {lemur.output = 0 : i64}) {
  %0 = arith.addf %x, %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""


@dataclass(frozen=True)
class Fails(Pass):
    name: ClassVar[str] = "fails"

    def run(self, module: ir.Operation) -> None:
        module.attributes["half.done"] = ir.UnitAttr.get()
        raise RuntimeError("boom")


CRASHING = """
import os, signal, sys
print("lemurc.passes.manager: running fuse", file=sys.stderr)
print("PLEASE submit a bug report to llvm.org", file=sys.stderr)
print(" #0 0x00007f1 (/venv/lib/libMLIR.so.24+0x1)", file=sys.stderr)
print("INFO Initializing MLIR with module: _site_initialize_0", file=sys.stderr)
sys.stderr.flush()
os.kill(os.getpid(), signal.SIGSEGV)
"""


def request(level: int, *, strict: bool = False) -> exchange.Request:
    return exchange.Request((), (), level, level="linalg", strict=strict)


def failing_above(level: int) -> Any:
    return lambda asked, explain: [Fails()] if asked > level else []


def test_steps_down_to_the_level_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "optimize", failing_above(0))
    with new_context(), ir.Location.unknown():
        module, notes = lowering._optimized(ir.Module.parse(TEXT), request(2))
        assert "half.done" not in module.operation.attributes
    assert [note.split(",")[0] for note in notes] == [
        "optimisation level 2 failed",
        "optimisation level 1 failed",
    ]
    for note in notes:
        assert "stepped down: pass 'fails' failed" in note
        assert "reproduce with: lemurc opt" in note
        assert "boom" not in note  # what MLIR says is for the log


def test_under_strict_it_does_not_step_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "optimize", failing_above(0))
    with new_context(), ir.Location.unknown(), pytest.raises(PassError):
        lowering._optimized(ir.Module.parse(TEXT), request(2, strict=True))


def test_a_failure_of_the_lowest_level_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "optimize", failing_above(-1))
    with new_context(), ir.Location.unknown(), pytest.raises(PassError) as caught:
        lowering._optimized(ir.Module.parse(TEXT), request(1))
    assert isinstance(caught.value, InternalError)
    assert "lemurc opt" in caught.value.hint


def test_a_crash_names_its_log_and_says_no_noise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "crashing.py").write_text(CRASHING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(InternalError) as caught:
        run_module("crashing", tmp_path, error_file="error.json")
    assert caught.value.code == "lowering-crashed"
    assert caught.value.message.splitlines() == [
        "the lowering process ended with signal SIGSEGV, having said:",
        "  lemurc.passes.manager: running fuse",
    ]
    (log,) = tmp_path.glob("lemurc-*.log")
    assert str(log) in caught.value.hint
    assert "--save-temps" in caught.value.hint
    assert "Initializing MLIR" in log.read_text()


def test_of_a_traceback_only_what_was_raised_is_said() -> None:
    log = 'running fuse\nTraceback (most recent call last):\n  File "x"\n    f()\nKeyError: 3\n'
    assert last_words(log) == ["running fuse", "KeyError: 3"]


def test_the_error_of_an_earlier_run_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / "error.json").write_text("{}")
    assert run_module("this", tmp_path, error_file="error.json").startswith("The Zen")


def test_the_ir_after_each_pass_is_kept(tmp_path: Path) -> None:
    (tmp_path / "passes").mkdir()
    (tmp_path / "passes" / "099-old.mlir").write_text("")
    (tmp_path / exchange.PROGRAM).write_text(TEXT)
    device = get("cpu").system_device("cpu", ["x86-64-v3"])
    archs = (exchange.TargetArch("cpu", "x86-64-v3"),)
    system = {"devices": [device], "pins": []}
    lowering.lower(tmp_path, exchange.Request((system,), archs, level="linalg", keep_ir=True))
    kept = sorted(path.name for path in (tmp_path / "passes").iterdir())
    assert [int(name[:3]) for name in kept] == list(range(len(kept)))
    assert kept[0] == "000-import.mlir"
    names = [re.sub(r"^\d+-|\.mlir$", "", name) for name in kept]
    for name in ("fuse", "place", "outline-stages", "s0-cpu-x86-64-v3"):
        assert name in names
    with new_context():
        ir.Module.parse((tmp_path / "passes" / kept[names.index("place")]).read_text())
