# ruff: noqa: E501 (MLIR text)
"""Groups that are taken apart into pieces."""

from lemurc.passes import graph as graphs
from lemurc.passes.graph import Graph
from lemurc.passes.sizes import Sizes
from lemurc.passes.split_groups import pieces, split

TWICE = """
func.func @twice(%x: tensor<4x4xf32> {lemur.input = 0 : i64}, %a: tensor<25x4xf32> {lemur.param = "a"}, %b: tensor<25x4xf32> {lemur.param = "b"}, %c: tensor<4x25xf32> {lemur.param = "c"}) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %0:2 = call @fused_0(%x, %a, %b, %c) {lemur.cost = {flops = 0 : i64, bytes_read = 0 : i64, bytes_written = 0 : i64, live_bytes = 0 : i64}, lemur.stage = 0 : i64, lemur.values = ["v0", "v1"]} : (tensor<4x4xf32>, tensor<25x4xf32>, tensor<25x4xf32>, tensor<4x25xf32>) -> (tensor<4x4xf32>, tensor<4x25xf32>)
  %1 = call @linear_2(%0#1, %c) {lemur.stage = 0 : i64, lemur.values = ["v2"]} : (tensor<4x25xf32>, tensor<4x25xf32>) -> tensor<4x4xf32>
  %2 = linalg.add {lemur.stage = 0 : i64, lemur.values = ["v3"]} ins(%0#0, %1 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %3:2 = call @fused_0(%2, %a, %b, %c) {lemur.cost = {flops = 0 : i64, bytes_read = 0 : i64, bytes_written = 0 : i64, live_bytes = 0 : i64}, lemur.stage = 0 : i64, lemur.values = ["v4", "v5"]} : (tensor<4x4xf32>, tensor<25x4xf32>, tensor<25x4xf32>, tensor<4x25xf32>) -> (tensor<4x4xf32>, tensor<4x25xf32>)
  %4 = call @linear_2(%3#1, %c) {lemur.stage = 0 : i64, lemur.values = ["v6"]} : (tensor<4x25xf32>, tensor<4x25xf32>) -> tensor<4x4xf32>
  %5 = linalg.add {lemur.stage = 0 : i64, lemur.values = ["v7"]} ins(%3#0, %4 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %5 : tensor<4x4xf32>
}
func.func private @fused_0(%x: tensor<4x4xf32>, %a: tensor<25x4xf32>, %b: tensor<25x4xf32>, %c: tensor<4x25xf32>) -> (tensor<4x4xf32>, tensor<4x25xf32>) attributes {lemur.composite = "fused", no_inline} {
  %0 = call @linear_0(%x, %a) : (tensor<4x4xf32>, tensor<25x4xf32>) -> tensor<4x25xf32>
  %1 = call @linear_2(%0, %c) : (tensor<4x25xf32>, tensor<4x25xf32>) -> tensor<4x4xf32>
  %2 = call @linear_0(%x, %b) : (tensor<4x4xf32>, tensor<25x4xf32>) -> tensor<4x25xf32>
  return %1, %2 : tensor<4x4xf32>, tensor<4x25xf32>
}
func.func private @linear_0(%x: tensor<4x4xf32>, %w: tensor<25x4xf32>) -> tensor<4x25xf32> attributes {lemur.composite = "linear", lemur.operands = ["input", "weight"], no_inline} {
  %e = tensor.empty() : tensor<4x25xf32>
  return %e : tensor<4x25xf32>
}
func.func private @linear_2(%x: tensor<4x25xf32>, %w: tensor<4x25xf32>) -> tensor<4x4xf32> attributes {lemur.composite = "linear", lemur.operands = ["input", "weight"], no_inline} {
  %e = tensor.empty() : tensor<4x4xf32>
  return %e : tensor<4x4xf32>
}
"""


def test_both_calls_of_one_group_come_apart(parse) -> None:
    """Rows that are computed in chunks call the same groups."""
    module = parse(TWICE).operation
    functions = graphs.bodies(module)
    graph = Graph(graphs.entries(module)[0])
    calls = [op for op in graph.nodes if graphs.callee(op) == "fused_0"]
    found = [pieces(graph, call, functions) for call in calls]
    assert [[len(piece) for piece in each] for each in found] == [[2, 1]] * 2
    for call, each in zip(calls, found, strict=True):
        made = split(module, call, each, functions, Sizes(graph.function))
        assert len(made) == 2
    assert module.verify()
    left = [graphs.callee(op) for op in Graph(graph.function).nodes]
    assert "fused_0" not in left and sum(name.startswith("fused_") for name in left) == 2
