// RUN: lemurc opt -p 'fuse{explain=true}' --split-input-file %s | filecheck %s

// Two read the value; a reduction takes no part; a view computes nothing.
// CHECK-LABEL: func.func @readers
// CHECK:       linalg.exp {lemur.apart = [
// CHECK-SAME:    ["reader", "tanh", "", "2 operations read the value, so it must be in memory"]
// CHECK-SAME:    ["reader", "reduce", "", "2 operations read the value, so it must be in memory"]
// CHECK:       linalg.tanh {lemur.apart = [
// CHECK-SAME:    ["input", "exp", "", "2 operations read the value, so it must be in memory"]
// CHECK-SAME:    ["reader", "collapse_shape", "", "collapse_shape is a view and computes nothing"]
// CHECK:       tensor.collapse_shape
// CHECK-SAME:    ["input", "tanh", "", "collapse_shape is a view and computes nothing"]
#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @readers(%x: tensor<4x8xf32> {lemur.input = 0 : i64}) -> (tensor<32xf32>, tensor<4xf32>) {
  %e = tensor.empty() : tensor<4x8xf32>
  %z = arith.constant 0.0 : f32
  %r = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%z : f32) outs(%r : tensor<4xf32>) -> tensor<4xf32>
  %0 = linalg.exp ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = linalg.tanh ins(%0 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = tensor.collapse_shape %1 [[0, 1]] : tensor<4x8xf32> into tensor<32xf32>
  %3 = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<4x8xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %2, %3 : tensor<32xf32>, tensor<4xf32>
}

// -----

// A reduction that alone reads, a value that is a result too, a reader of another shape.
// CHECK-LABEL: func.func @ends
// CHECK:       linalg.exp {lemur.apart = {{.*}}["reader", "reduce", "", "a reduction is not elementwise"]
// CHECK:       linalg.generic
// CHECK-SAME:    ["input", "exp", "", "a reduction is not elementwise"]
// CHECK:       linalg.tanh {lemur.apart = {{.*}}["reader", "abs", "", "the value is a result too, so it must be in memory"]
// CHECK:       linalg.abs {lemur.apart = {{.*}}["reader", "copy", "", "the reader's result has another shape"]
#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @ends(%x: tensor<4x8xf32> {lemur.input = 0 : i64}) -> (tensor<4xf32>, tensor<4x8xf32>) {
  %e = tensor.empty() : tensor<4x8xf32>
  %z = arith.constant 0.0 : f32
  %r = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%z : f32) outs(%r : tensor<4xf32>) -> tensor<4xf32>
  %0 = linalg.exp ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<4x8xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %2 = linalg.tanh ins(%1 : tensor<4xf32>) outs(%r : tensor<4xf32>) -> tensor<4xf32>
  %3 = linalg.abs ins(%2 : tensor<4xf32>) outs(%r : tensor<4xf32>) -> tensor<4xf32>
  %4 = linalg.generic {indexing_maps = [#row, #all], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<4xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<4x8xf32>
  return %2, %4 : tensor<4xf32>, tensor<4x8xf32>
}

// -----

// Between two contractions the first takes what both could; one after another they stay two.
// CHECK-LABEL: func.func @contractions
// CHECK:       call @fused_0
// CHECK-SAME:    {lemur.apart = {{\[\[}}"reader", "linear", "fc", "what makes the value is in another group already"]]
// CHECK:       call @linear_0
// CHECK-SAME:    "input", "exp", "", "what makes the value is in another group already"]
// CHECK-SAME:    "reader", "linear", "fc", "linear is not elementwise"
func.func private @linear_0(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {lemur.composite = "linear", lemur.module_path = "fc", no_inline} {
  %z = arith.constant 0.0 : f32
  %o = tensor.empty() : tensor<8x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<8x8xf32>) -> tensor<8x8xf32>
  %r = linalg.matmul ins(%x, %w : tensor<8x8xf32>, tensor<8x8xf32>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}
func.func @contractions(%x: tensor<8x8xf32> {lemur.input = 0 : i64}, %w: tensor<8x8xf32> {lemur.param = "w"}) -> tensor<8x8xf32> {
  %e = tensor.empty() : tensor<8x8xf32>
  %0 = call @linear_0(%x, %w) {no_inline} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = linalg.exp ins(%0 : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = call @linear_0(%1, %w) {no_inline} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = call @linear_0(%2, %w) {no_inline} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}
