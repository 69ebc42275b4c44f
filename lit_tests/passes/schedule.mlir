// RUN: lemurc opt -p schedule --split-input-file %s | filecheck %s
// RUN: lemurc opt -p schedule,schedule --split-input-file %s | filecheck %s --check-prefix=TWICE
// RUN: lemurc opt -p 'schedule{order=program}' --split-input-file %s | filecheck %s --check-prefix=PROGRAM

// Two wide values, each reduced at once: one by one needs less than both together.
// CHECK-LABEL: func.func @one_by_one
// CHECK-SAME:    lemur.schedule = {bound_bytes = 812 : i64, peak_bytes = 812 : i64, program_bytes = 1612 : i64}
// CHECK:         linalg.broadcast
// CHECK:         linalg.reduce
// CHECK:         linalg.broadcast
// CHECK:         linalg.reduce
// TWICE-LABEL: func.func @one_by_one
// TWICE-SAME:    peak_bytes = 812 : i64
// PROGRAM-LABEL: func.func @one_by_one
// PROGRAM-SAME:    peak_bytes = 1612 : i64
// PROGRAM:         linalg.broadcast
// PROGRAM-NEXT:    linalg.broadcast
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

// -----

// Products that were put together, and the sum that finishes one of them, come apart where that
// saves: each wide value is made, narrowed and added before the next is made.
// CHECK-LABEL: func.func @apart
// CHECK-SAME:    bound_bytes = 656 : i64, peak_bytes = 656 : i64, program_bytes = 992 : i64
// CHECK:         [[A:%.+]] = call @linear_
// CHECK-NEXT:    [[B:%.+]] = call @linear_{{.*}}([[A]]
// CHECK-NEXT:    [[C:%.+]] = call @linear_
// CHECK-NEXT:    [[D:%.+]] = call @linear_{{.*}}([[C]]
// CHECK:         linalg.add {{.*}}ins([[B]], [[D]] :
// CHECK:         return
// PROGRAM-LABEL: func.func @apart
// PROGRAM:         call @fused_0
func.func @apart(%x: tensor<4x4xf32> {lemur.input = 0 : i64}, %a: tensor<25x4xf32> {lemur.param = "a"}, %b: tensor<25x4xf32> {lemur.param = "b"}, %c: tensor<4x25xf32> {lemur.param = "c"}, %d: tensor<4x25xf32> {lemur.param = "d"}) -> tensor<4x4xf32> {
  %0:2 = call @fused_0(%x, %a, %b) {lemur.cost = {flops = 0 : i64, bytes_read = 0 : i64, bytes_written = 0 : i64, live_bytes = 0 : i64}, lemur.stage = 0 : i64, lemur.values = ["v0", "v1"]} : (tensor<4x4xf32>, tensor<25x4xf32>, tensor<25x4xf32>) -> (tensor<4x25xf32>, tensor<4x25xf32>)
  %1 = call @linear_2(%0#0, %c) {lemur.stage = 0 : i64, lemur.values = ["v2"]} : (tensor<4x25xf32>, tensor<4x25xf32>) -> tensor<4x4xf32>
  %2 = call @fused_1(%0#1, %1, %d) {lemur.cost = {flops = 0 : i64, bytes_read = 0 : i64, bytes_written = 0 : i64, live_bytes = 0 : i64}, lemur.stage = 0 : i64, lemur.values = ["v3"]} : (tensor<4x25xf32>, tensor<4x4xf32>, tensor<4x25xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}
func.func private @fused_0(%x: tensor<4x4xf32>, %a: tensor<25x4xf32>, %b: tensor<25x4xf32>) -> (tensor<4x25xf32>, tensor<4x25xf32>) attributes {lemur.composite = "fused", no_inline} {
  %0 = call @linear_0(%x, %a) : (tensor<4x4xf32>, tensor<25x4xf32>) -> tensor<4x25xf32>
  %1 = call @linear_0(%x, %b) : (tensor<4x4xf32>, tensor<25x4xf32>) -> tensor<4x25xf32>
  return %0, %1 : tensor<4x25xf32>, tensor<4x25xf32>
}
func.func private @fused_1(%x: tensor<4x25xf32>, %y: tensor<4x4xf32>, %w: tensor<4x25xf32>) -> tensor<4x4xf32> attributes {lemur.composite = "fused", no_inline} {
  %e = tensor.empty() : tensor<4x4xf32>
  %0 = call @linear_2(%x, %w) : (tensor<4x25xf32>, tensor<4x25xf32>) -> tensor<4x4xf32>
  %1 = linalg.add ins(%0, %y : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
func.func private @linear_0(%x: tensor<4x4xf32>, %w: tensor<25x4xf32>) -> tensor<4x25xf32> attributes {lemur.composite = "linear", lemur.operands = ["input", "weight"], no_inline} {
  %e = tensor.empty() : tensor<4x25xf32>
  return %e : tensor<4x25xf32>
}
func.func private @linear_2(%x: tensor<4x25xf32>, %w: tensor<4x25xf32>) -> tensor<4x4xf32> attributes {lemur.composite = "linear", lemur.operands = ["input", "weight"], no_inline} {
  %e = tensor.empty() : tensor<4x4xf32>
  return %e : tensor<4x4xf32>
}
