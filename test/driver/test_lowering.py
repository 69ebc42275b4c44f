"""The lowering process: it steps down where a pass fails, and says so."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from torch_mlir import ir

from lemurc import lowering
from lemurc.dialects.context import new_context
from lemurc.errors import InternalError
from lemurc.passes import pipelines
from lemurc.passes.base import Pass, PassError

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


def failing_above(level: int) -> Any:
    return lambda asked: [Fails()] if asked > level else []


def test_steps_down_to_the_level_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "optimize", failing_above(0))
    with new_context(), ir.Location.unknown():
        module, notes = lowering._optimized(ir.Module.parse(TEXT), 2)
        assert "half.done" not in module.operation.attributes
    assert [note.split(",")[0] for note in notes] == [
        "optimisation level 2 failed",
        "optimisation level 1 failed",
    ]
    assert all("boom" in note for note in notes)


def test_a_failure_of_the_lowest_level_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "optimize", failing_above(-1))
    with new_context(), ir.Location.unknown(), pytest.raises(PassError) as caught:
        lowering._optimized(ir.Module.parse(TEXT), 1)
    assert isinstance(caught.value, InternalError)
    assert "lemurc opt" in caught.value.hint
