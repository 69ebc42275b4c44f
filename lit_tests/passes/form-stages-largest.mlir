// RUN: lemurc opt -p 'form-stages{largest=2}' %s | filecheck %s

// Two operations to a stage, in program order; a view counts as nothing; stages of another
// device are cut for themselves.
// CHECK-LABEL: func.func @main
// CHECK:         linalg.exp {lemur.device = "a", lemur.stage = 0 : i64}
// CHECK:         tensor.expand_shape {{.*}}lemur.stage = 0 : i64
// CHECK:         linalg.abs {lemur.device = "a", lemur.stage = 0 : i64}
// CHECK:         linalg.tanh {lemur.device = "a", lemur.stage = 1 : i64}
// CHECK:         linalg.log {lemur.device = "b", lemur.stage = 2 : i64}
func.func @main(%x: tensor<2xf32>) -> tensor<1x2xf32> {
  %d = tensor.empty() : tensor<2xf32>
  %e = tensor.empty() : tensor<1x2xf32>
  %0 = linalg.exp {lemur.device = "a"} ins(%x : tensor<2xf32>) outs(%d : tensor<2xf32>) -> tensor<2xf32>
  %1 = tensor.expand_shape %0 [[0, 1]] output_shape [1, 2] {lemur.device = "a"} : tensor<2xf32> into tensor<1x2xf32>
  %2 = linalg.abs {lemur.device = "a"} ins(%1 : tensor<1x2xf32>) outs(%e : tensor<1x2xf32>) -> tensor<1x2xf32>
  %3 = linalg.tanh {lemur.device = "a"} ins(%2 : tensor<1x2xf32>) outs(%e : tensor<1x2xf32>) -> tensor<1x2xf32>
  %4 = linalg.log {lemur.device = "b"} ins(%3 : tensor<1x2xf32>) outs(%e : tensor<1x2xf32>) -> tensor<1x2xf32>
  return %4 : tensor<1x2xf32>
}
