"""What a compiler that is not IREE's gets: plain MLIR, inputs before weights, nothing of ours."""

import io

import pytest

pytest.importorskip("torch_mlir")

from torch_mlir import ir

from lemurc.dialects.context import new_context
from lemurc.errors import InternalError
from lemurc.targets.lower_to_portable import lower_to_portable

STAGE = """
module @stage0 attributes {lemur.cost = {flops = 1 : i64}} {
  func.func private @composite(%a: tensor<?x4xf32>, %w: tensor<4x4xf32>) -> tensor<?x4xf32>
      attributes {lemur.composite = "linear", no_inline} {
    %c0 = arith.constant 0 : index
    %z = arith.constant 0.0 : f32
    %n = tensor.dim %a, %c0 : tensor<?x4xf32>
    %e = tensor.empty(%n) : tensor<?x4xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x4xf32>) -> tensor<?x4xf32>
    %p = linalg.matmul ins(%a, %w : tensor<?x4xf32>, tensor<4x4xf32>)
        outs(%f : tensor<?x4xf32>) -> tensor<?x4xf32>
    return %p : tensor<?x4xf32>
  }
  func.func private @sorted(%a: tensor<?x4xf32>) -> tensor<?x4xf32>
      attributes {lemur.composite = "sort", no_inline} {
    %0 = tm_tensor.sort dimension(1) outs(%a : tensor<?x4xf32>) {
    ^bb0(%x: f32, %y: f32):
      %lt = arith.cmpf olt, %x, %y : f32
      tm_tensor.yield %lt : i1
    } -> tensor<?x4xf32>
    return %0 : tensor<?x4xf32>
  }
  func.func @run(%w: tensor<4x4xf32> {lemur.param = "WEIGHT"},
                 %x: tensor<?x4xf32> {lemur.value = "input:0"},
                 %unread: tensor<4xf32> {lemur.param = "unread"},
                 %v: tensor<4x4xf32> {lemur.param = "other"})
      -> (tensor<?x4xf32> {lemur.value = "v0"}, tensor<?x4xf32> {lemur.value = "v1"}) {
    %true = arith.constant true
    cf.assert %true, "torch-mlir's own"
    %0 = call @composite(%x, %w) {no_inline} : (tensor<?x4xf32>, tensor<4x4xf32>) -> tensor<?x4xf32>
    %1 = call @composite(%0, %v) {no_inline} : (tensor<?x4xf32>, tensor<4x4xf32>) -> tensor<?x4xf32>
    %2 = call @sorted(%1) {no_inline} : (tensor<?x4xf32>) -> tensor<?x4xf32>
    return %1, %2 : tensor<?x4xf32>, tensor<?x4xf32>
  }
}"""


def lowered(text: str) -> tuple[tuple[str, ...], bytes, str]:
    """The weights in order, the bytecode, and its text."""
    with new_context(), ir.Location.unknown():
        stream = io.BytesIO()
        ir.Module.parse(text).operation.write_bytecode(stream)
        stage = lower_to_portable(stream.getvalue())
        return stage.parameters, stage.bytecode, str(ir.Module.parse(stage.bytecode))


def test_one_function_of_inputs_then_weights_with_everything_inlined() -> None:
    parameters, _, text = lowered(STAGE)
    assert parameters == ("WEIGHT", "other")
    assert text.count("func.func") == 1 and "call" not in text
    assert (
        "func.func @run(%arg0: tensor<?x4xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<4x4xf32>)"
        " -> (tensor<?x4xf32>, tensor<?x4xf32>)" in text
    )
    for gone in ("lemur", "no_inline", "cf.assert", "WEIGHT"):
        assert gone not in text
    first, second = (line for line in text.splitlines() if "linalg.matmul" in line)
    assert "%arg0, %arg1" in first and "%arg2" in second
    assert text.count("tm_tensor.sort") == 1


def test_layers_that_differ_only_in_names_are_the_same_bytes() -> None:
    other = STAGE.replace("WEIGHT", "layers.7.weight").replace("@stage0", "@stage9")
    assert lowered(STAGE)[1] == lowered(other)[1]


def test_its_code_writes_into_results_alone() -> None:
    with new_context(), ir.Location.unknown():
        stream = io.BytesIO()
        ir.Module.parse(STAGE).operation.write_bytecode(stream)
        memory = lower_to_portable(stream.getvalue()).traits.memory
    assert memory.written == () and memory.owned == (0, 1)


def test_what_no_compiler_is_promised_is_an_error() -> None:
    stage = STAGE.replace('cf.assert %true, "torch-mlir\'s own"', "vector.print %true : i1")
    assert stage != STAGE
    with pytest.raises(InternalError, match="operations of vector, which the compilers"):
        lowered(stage)
