# ruff: noqa: E501 (MLIR text)
"""Work against numbers worked out by hand."""

import pytest

from lemurc.passes import graph as graphs
from lemurc.passes.annotate_cost import AnnotateCost

_CONV = """
func.func private @conv_0(%x: tensor<2x6x9x9xf32>, %w: tensor<8x3x3x3xf32>) -> tensor<2x8x4x4xf32>
    attributes {{lemur.composite = "conv", lemur.transposed = {transposed}, no_inline}} {{
  %z = arith.constant 0.0 : f32
  %xe = tensor.expand_shape %x [[0], [1, 2], [3], [4]] output_shape [2, 2, 3, 9, 9]
    : tensor<2x6x9x9xf32> into tensor<2x2x3x9x9xf32>
  %we = tensor.expand_shape %w [[0, 1], [2], [3], [4]] output_shape [2, 4, 3, 3, 3]
    : tensor<8x3x3x3xf32> into tensor<2x4x3x3x3xf32>
  %e = tensor.empty() : tensor<2x2x4x4x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x2x4x4x4xf32>) -> tensor<2x2x4x4x4xf32>
  %r = linalg.conv_2d_ngchw_gfchw {{strides = dense<2> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}}
    ins(%xe, %we : tensor<2x2x3x9x9xf32>, tensor<2x4x3x3x3xf32>)
    outs(%f : tensor<2x2x4x4x4xf32>) -> tensor<2x2x4x4x4xf32>
  %c = tensor.collapse_shape %r [[0], [1, 2], [3], [4]] : tensor<2x2x4x4x4xf32> into tensor<2x8x4x4xf32>
  return %c : tensor<2x8x4x4xf32>
}}
func.func @main(%x: tensor<2x6x9x9xf32>, %w: tensor<8x3x3x3xf32>) -> tensor<2x8x4x4xf32> {{
  %0 = call @conv_0(%x, %w) {{no_inline}}
    : (tensor<2x6x9x9xf32>, tensor<8x3x3x3xf32>) -> tensor<2x8x4x4xf32>
  return %0 : tensor<2x8x4x4xf32>
}}
"""

_ATTENTION = """
func.func private @attention_0(%q: tensor<6x10x16xf32>, %k: tensor<6x12x16xf32>, %v: tensor<6x12x8xf32>)
    -> tensor<6x10x8xf32> attributes {lemur.composite = "attention", no_inline} {
  %e = tensor.empty() : tensor<6x10x8xf32>
  %0 = tm_tensor.attention ins(%q, %k, %v : tensor<6x10x16xf32>, tensor<6x12x16xf32>, tensor<6x12x8xf32>)
    outs(%e : tensor<6x10x8xf32>) -> tensor<6x10x8xf32>
  return %0 : tensor<6x10x8xf32>
}
func.func @main(%q: tensor<6x10x16xf32>, %k: tensor<6x12x16xf32>, %v: tensor<6x12x8xf32>) -> tensor<6x10x8xf32> {
  %0 = call @attention_0(%q, %k, %v) {no_inline}
    : (tensor<6x10x16xf32>, tensor<6x12x16xf32>, tensor<6x12x8xf32>) -> tensor<6x10x8xf32>
  return %0 : tensor<6x10x8xf32>
}
"""

_LINEAR = """
func.func private @linear_0(%x: tensor<2x5x7xf16>, %w: tensor<3x7xf16>, %b: tensor<3xf16>) -> tensor<2x5x3xf16>
    attributes {lemur.composite = "linear", no_inline} {
  %z = arith.constant 0.0 : f16
  %we = tensor.empty() : tensor<7x3xf16>
  %t = linalg.transpose ins(%w : tensor<3x7xf16>) outs(%we : tensor<7x3xf16>) permutation = [1, 0]
  %xc = tensor.collapse_shape %x [[0, 1], [2]] : tensor<2x5x7xf16> into tensor<10x7xf16>
  %e = tensor.empty() : tensor<10x3xf16>
  %f = linalg.fill ins(%z : f16) outs(%e : tensor<10x3xf16>) -> tensor<10x3xf16>
  %m = linalg.matmul ins(%xc, %t : tensor<10x7xf16>, tensor<7x3xf16>) outs(%f : tensor<10x3xf16>) -> tensor<10x3xf16>
  %y = tensor.expand_shape %m [[0, 1], [2]] output_shape [2, 5, 3] : tensor<10x3xf16> into tensor<2x5x3xf16>
  %o = tensor.empty() : tensor<2x5x3xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (c)>,
      affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%y, %b : tensor<2x5x3xf16>, tensor<3xf16>) outs(%o : tensor<2x5x3xf16>) {
  ^bb0(%p: f16, %q: f16, %u: f16):
    %s = arith.addf %p, %q : f16
    linalg.yield %s : f16
  } -> tensor<2x5x3xf16>
  return %r : tensor<2x5x3xf16>
}
func.func @main(%x: tensor<2x5x7xf16>, %w: tensor<3x7xf16>, %b: tensor<3xf16>) -> tensor<2x5x3xf16> {
  %0 = call @linear_0(%x, %w, %b) {no_inline}
    : (tensor<2x5x7xf16>, tensor<3x7xf16>, tensor<3xf16>) -> tensor<2x5x3xf16>
  return %0 : tensor<2x5x3xf16>
}
"""

_EMBEDDING = """
func.func private @embedding_0(%w: tensor<1000x8xf32>, %i: tensor<5xi64>) -> tensor<5x8xf32>
    attributes {lemur.composite = "embedding", no_inline} {
  %e = tensor.empty() : tensor<5x8xf32>
  return %e : tensor<5x8xf32>
}
func.func @main(%w: tensor<1000x8xf32>, %i: tensor<5xi64>) -> tensor<5x8xf32> {
  %0 = call @embedding_0(%w, %i) {no_inline} : (tensor<1000x8xf32>, tensor<5xi64>) -> tensor<5x8xf32>
  return %0 : tensor<5x8xf32>
}
"""

_REDUCE = """
func.func @main(%x: tensor<4x6xf32>) -> tensor<4xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %0 = linalg.reduce { arith.addf } ins(%x : tensor<4x6xf32>) outs(%f : tensor<4xf32>) dimensions = [1]
  return %0 : tensor<4xf32>
}
"""


@pytest.mark.parametrize(
    ("text", "flops", "read", "written"),
    [
        # batch*rows, in, out; then the bias
        (_LINEAR, 2 * 10 * 7 * 3 + 10 * 3, 2 * (70 + 21 + 3), 2 * 30),
        # every output element: 3 channels of its group, 3x3 filter
        (
            _CONV.format(transposed="false"),
            2 * (2 * 8 * 4 * 4) * 3 * 9,
            4 * (2 * 6 * 81 + 8 * 27),
            4 * 256,
        ),
        # transposed: every input element meets each filter of its group
        (
            _CONV.format(transposed="true"),
            2 * (2 * 6 * 81) * 3 * 9,
            4 * (2 * 6 * 81 + 8 * 27),
            4 * 256,
        ),
        # scores 10x12 over 16, then values over 12
        (_ATTENTION, 6 * (2 * 10 * 12 * 16 + 2 * 10 * 12 * 8), 4 * 6 * (160 + 192 + 96), 4 * 480),
        # five rows of the table, not all of it
        (_EMBEDDING, 0, 5 * 8 + 4 * 40, 4 * 40),
        # the sums read their start value
        (_REDUCE, 24, 4 * (24 + 4), 16),
    ],
    ids=["linear", "conv", "transposed conv", "attention", "embedding", "reduce"],
)
def test_hand_computed(parse, text: str, flops: int, read: int, written: int) -> None:
    module = parse(text)
    AnnotateCost().run(module.operation)
    (entry,) = graphs.entries(module.operation)
    (op,) = (o for o in graphs.Graph(entry).nodes if "lemur.cost" in o.attributes)
    cost = {item.name: item.attr.value for item in op.attributes["lemur.cost"]}
    assert (cost["flops"], cost["bytes_read"], cost["bytes_written"]) == (flops, read, written)
