// RUN: lemurc opt -p 'annotate-cost,place,form-stages,schedule,outline-stages' %s | filecheck %s

// What the cost model is told of a stage: equal operations once, counted; a view is nothing;
// a product has rows (with its batches), columns and depth; loops are named by what they do.
// CHECK:      module @stage0
// CHECK-SAME:   lemur.work = [{bytes_read = 384 : i64, bytes_written = 128 : i64, count = 2 : i64, dtype = "f32", flops = 512 : i64, kind = "linear", shape = array<i64: 4, 8, 8>}
// CHECK-SAME:   kind = "elementwise[exp]", shape = array<i64>}
// CHECK-SAME:   count = 1 : i64, dtype = "f32", flops = 384 : i64, kind = "batch_matmul", shape = array<i64: 8, 3, 8>}
// CHECK-SAME:   kind = "reduce", shape = array<i64>}]
func.func private @linear_0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> attributes {lemur.composite = "linear", lemur.module_path = "mid", no_inline} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %t = linalg.transpose ins(%w : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) permutation = [1, 0]
  %o = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = linalg.matmul ins(%x, %t : tensor<4x8xf32>, tensor<8x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
func.func @main(%x: tensor<4x8xf32> {lemur.input = 0 : i64}, %y: tensor<2x8x3xf32> {lemur.input = 1 : i64}, %w: tensor<8x8xf32> {lemur.param = "w"}) -> tensor<2x4xf32> {
  %z = arith.constant 0.0 : f32
  %0 = call @linear_0(%x, %w) {no_inline} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = call @linear_0(%0, %w) {no_inline} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %e = tensor.empty() : tensor<2x4x8xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (b, c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%1 : tensor<4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %v = math.exp %in : f32
    linalg.yield %v : f32
  } -> tensor<2x4x8xf32>
  %m = tensor.empty() : tensor<2x4x3xf32>
  %f = linalg.fill ins(%z : f32) outs(%m : tensor<2x4x3xf32>) -> tensor<2x4x3xf32>
  %3 = linalg.batch_matmul ins(%2, %y : tensor<2x4x8xf32>, tensor<2x8x3xf32>) outs(%f : tensor<2x4x3xf32>) -> tensor<2x4x3xf32>
  %s = tensor.empty() : tensor<2x4xf32>
  %g = linalg.fill ins(%z : f32) outs(%s : tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%3 : tensor<2x4x3xf32>) outs(%g : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %v = arith.addf %in, %out : f32
    linalg.yield %v : f32
  } -> tensor<2x4xf32>
  return %4 : tensor<2x4xf32>
}
