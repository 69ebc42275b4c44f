// RUN: lemurc opt -p schedule --split-input-file %s | filecheck %s
// RUN: lemurc opt -p schedule,schedule --split-input-file %s | filecheck %s

// Two wide values, each reduced at once: one by one needs less than both together.
// CHECK-LABEL: func.func @one_by_one
// CHECK-SAME:    lemur.schedule = {bound_bytes = 804 : i64, peak_bytes = 808 : i64}
// CHECK:         linalg.broadcast
// CHECK:         linalg.reduce
// CHECK:         linalg.broadcast
// CHECK:         linalg.reduce
func.func @one_by_one(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %e = tensor.empty() : tensor<200xf32>
  %s = tensor.empty() : tensor<f32>
  %b = linalg.broadcast ins(%x : tensor<f32>) outs(%e : tensor<200xf32>) dimensions = [0] {lemur.stage = 0 : i64}
  %c = linalg.broadcast ins(%x : tensor<f32>) outs(%e : tensor<200xf32>) dimensions = [0] {lemur.stage = 0 : i64}
  %2 = linalg.reduce { arith.addf } ins(%b : tensor<200xf32>) outs(%s : tensor<f32>) dimensions = [0] {lemur.stage = 0 : i64}
  %3 = linalg.reduce { arith.mulf } ins(%c : tensor<200xf32>) outs(%s : tensor<f32>) dimensions = [0] {lemur.stage = 0 : i64}
  return %2, %3 : tensor<f32>, tensor<f32>
}

// -----

// Stages come one after another, and no order of a chain is better than the given.
// CHECK-LABEL: func.func @chain
// CHECK:         linalg.exp {lemur.stage = 0 : i64}
// CHECK-NEXT:    linalg.tanh {lemur.stage = 0 : i64}
// CHECK-NEXT:    linalg.log {lemur.stage = 1 : i64}
func.func @chain(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %e = tensor.empty() : tensor<2xf32>
  %0 = linalg.exp {lemur.stage = 0 : i64} ins(%x : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %1 = linalg.log {lemur.stage = 1 : i64} ins(%0 : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %2 = linalg.tanh {lemur.stage = 0 : i64} ins(%0 : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  return %1, %2 : tensor<2xf32>, tensor<2xf32>
}
