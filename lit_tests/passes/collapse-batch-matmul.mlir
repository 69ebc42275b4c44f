// RUN: lemurc opt -p 'collapse-batch-matmul,func.func(canonicalize,cse)' --split-input-file %s | filecheck %s

#w = affine_map<(b, k, n) -> (k, n)>
#id = affine_map<(b, k, n) -> (b, k, n)>

// The dynamic size is read off the accumulator; the broadcast goes.
// CHECK-LABEL: func.func @linear
// CHECK-SAME:    ([[X:%.+]]: tensor<2x?x8xf32>, [[W:%.+]]: tensor<8x4xf32>, [[INIT:%.+]]: tensor<2x?x4xf32>)
// CHECK-DAG:     [[ROWS:%.+]] = tensor.collapse_shape [[X]] {{.*}}0, 1], [2{{.*}} : tensor<2x?x8xf32> into tensor<?x8xf32>
// CHECK-DAG:     [[OUT:%.+]] = tensor.collapse_shape [[INIT]] {{.*}}0, 1], [2{{.*}} : tensor<2x?x4xf32> into tensor<?x4xf32>
// CHECK:         [[P:%.+]] = linalg.matmul ins([[ROWS]], [[W]] : tensor<?x8xf32>, tensor<8x4xf32>) outs([[OUT]] : tensor<?x4xf32>)
// CHECK:         [[M:%.+]] = tensor.dim [[INIT]], %c1
// CHECK:         [[Y:%.+]] = tensor.expand_shape [[P]] {{.*}}output_shape [2, [[M]], 4] : tensor<?x4xf32> into tensor<2x?x4xf32>
// CHECK-NEXT:    return [[Y]]
func.func @linear(%x: tensor<2x?x8xf32>, %w: tensor<8x4xf32>, %init: tensor<2x?x4xf32>) -> tensor<2x?x4xf32> {
  %e = tensor.empty() : tensor<2x8x4xf32>
  %b = linalg.generic {indexing_maps = [#w, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<8x4xf32>) outs(%e : tensor<2x8x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x8x4xf32>
  %y = linalg.batch_matmul ins(%x, %b : tensor<2x?x8xf32>, tensor<2x8x4xf32>) outs(%init : tensor<2x?x4xf32>) -> tensor<2x?x4xf32>
  return %y : tensor<2x?x4xf32>
}

// -----

#w = affine_map<(a, b, k, n) -> (k, n)>
#id = affine_map<(a, b, k, n) -> (a, b, k, n)>
#left = affine_map<(a, b, m, k, n) -> (a, b, m, k)>
#right = affine_map<(a, b, m, k, n) -> (a, b, k, n)>
#out = affine_map<(a, b, m, k, n) -> (a, b, m, n)>

// Two batch dimensions are a generic, and stay one.
// CHECK-LABEL: func.func @two_batches
// CHECK:         tensor.collapse_shape {{.*}} : tensor<2x3x5x8xf32> into tensor<30x8xf32>
// CHECK:         linalg.generic {{.*}} ins({{.*}} : tensor<30x8xf32>, tensor<8x4xf32>) outs({{.*}} : tensor<30x4xf32>)
// CHECK:         tensor.expand_shape {{.*}} : tensor<30x4xf32> into tensor<2x3x5x4xf32>
func.func @two_batches(%x: tensor<2x3x5x8xf32>, %w: tensor<8x4xf32>, %init: tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xf32> {
  %e = tensor.empty() : tensor<2x3x8x4xf32>
  %b = linalg.generic {indexing_maps = [#w, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%w : tensor<8x4xf32>) outs(%e : tensor<2x3x8x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x3x8x4xf32>
  %y = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction", "parallel"]} ins(%x, %b : tensor<2x3x5x8xf32>, tensor<2x3x8x4xf32>) outs(%init : tensor<2x3x5x4xf32>) {
  ^bb0(%in: f32, %in_0: f32, %acc: f32):
    %0 = arith.mulf %in, %in_0 : f32
    %1 = arith.addf %0, %acc : f32
    linalg.yield %1 : f32
  } -> tensor<2x3x5x4xf32>
  return %y : tensor<2x3x5x4xf32>
}

// -----

// Does not apply: each batch has a matrix of its own.
// CHECK-LABEL: func.func @own_matrices
// CHECK-NEXT:    linalg.batch_matmul
func.func @own_matrices(%x: tensor<2x3x8xf32>, %w: tensor<2x8x4xf32>, %init: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %y = linalg.batch_matmul ins(%x, %w : tensor<2x3x8xf32>, tensor<2x8x4xf32>) outs(%init : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %y : tensor<2x3x4xf32>
}

// -----

#t = affine_map<(b, k, n) -> (b, n)>
#id = affine_map<(b, k, n) -> (b, k, n)>

// Does not apply: what is repeated is a row of each batch.
// CHECK-LABEL: func.func @repeated_rows
// CHECK:         linalg.batch_matmul
func.func @repeated_rows(%x: tensor<2x3x8xf32>, %w: tensor<2x4xf32>, %init: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %e = tensor.empty() : tensor<2x8x4xf32>
  %b = linalg.generic {indexing_maps = [#t, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<2x4xf32>) outs(%e : tensor<2x8x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x8x4xf32>
  %y = linalg.batch_matmul ins(%x, %b : tensor<2x3x8xf32>, tensor<2x8x4xf32>) outs(%init : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %y : tensor<2x3x4xf32>
}
