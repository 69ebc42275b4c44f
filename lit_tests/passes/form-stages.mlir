// RUN: lemurc opt -p form-stages --split-input-file %s | filecheck %s

// There and back again: three stages, and the independent fourth operation joins the first.
// CHECK-LABEL: func.func @chain
// CHECK:         linalg.exp {lemur.device = "a", lemur.stage = 0 : i64}
// CHECK:         linalg.log {lemur.device = "b", lemur.stage = 1 : i64}
// CHECK:         linalg.abs {lemur.device = "a", lemur.stage = 2 : i64}
// CHECK:         linalg.tanh {lemur.device = "a", lemur.stage = 0 : i64}
func.func @chain(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %e = tensor.empty() : tensor<2xf32>
  %0 = linalg.exp {lemur.device = "a"} ins(%x : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %1 = linalg.log {lemur.device = "b"} ins(%0 : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %2 = linalg.abs {lemur.device = "a"} ins(%1 : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %3 = linalg.tanh {lemur.device = "a"} ins(%x : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  return %2, %3 : tensor<2xf32>, tensor<2xf32>
}

// A diamond with one arm away: the arm at home cannot join both ends.
// CHECK-LABEL: func.func @diamond
// CHECK:         linalg.exp {lemur.device = "a", lemur.stage = 0 : i64}
// CHECK:         linalg.log {lemur.device = "b", lemur.stage = 1 : i64}
// CHECK:         linalg.abs {lemur.device = "a", lemur.stage = 0 : i64}
// CHECK:         linalg.add {lemur.device = "a", lemur.stage = 2 : i64}
func.func @diamond(%x: tensor<2xf32>) -> tensor<2xf32> {
  %e = tensor.empty() : tensor<2xf32>
  %0 = linalg.exp {lemur.device = "a"} ins(%x : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %1 = linalg.log {lemur.device = "b"} ins(%0 : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %2 = linalg.abs {lemur.device = "a"} ins(%0 : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %3 = linalg.add {lemur.device = "a"} ins(%1, %2 : tensor<2xf32>, tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  return %3 : tensor<2xf32>
}

// -----

module attributes {lemur.system = {devices = [{name = "a", target = "cpu"}, {name = "b", target = "vulkan"}, {name = "c", target = "x", illegal_types = ["f32"]}]}} {
  // Larger than what it is made of: made on each device rather than sent. The original had
  // no other reader.
  // CHECK-LABEL: func.func @cloned
  // CHECK-NEXT:    tensor.empty
  // CHECK-NEXT:    linalg.broadcast {{.*}}lemur.device = "b"{{.*}}lemur.values = ["v0@b"]
  // CHECK-NEXT:    linalg.exp {lemur.device = "b", lemur.stage = 0 : i64}
  func.func @cloned(%x: tensor<2xf32>) -> tensor<3x2xf32> {
    %e = tensor.empty() : tensor<3x2xf32>
    %0 = linalg.broadcast ins(%x : tensor<2xf32>) outs(%e : tensor<3x2xf32>) dimensions = [0] {lemur.device = "a", lemur.values = ["v0"], lemur.cost = {flops = 0 : i64, bytes_read = 8 : i64, bytes_written = 24 : i64, live_bytes = 32 : i64}}
    %1 = linalg.exp {lemur.device = "b"} ins(%0 : tensor<3x2xf32>) outs(%e : tensor<3x2xf32>) -> tensor<3x2xf32>
    return %1 : tensor<3x2xf32>
  }

  // No larger than its input, too much work, or not legal there: sent.
  // CHECK-LABEL: func.func @sent
  // CHECK:         linalg.exp {{.*}}lemur.device = "a"
  // CHECK-NOT:     @b
  // CHECK:         linalg.broadcast {{.*}}lemur.device = "a"
  // CHECK-NOT:     @b
  // CHECK:         linalg.broadcast {{.*}}lemur.device = "a"
  // CHECK-NOT:     @c
  // CHECK:         return
  func.func @sent(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<3x2xf32>, tensor<3x2xf32>) {
    %d = tensor.empty() : tensor<2xf32>
    %e = tensor.empty() : tensor<3x2xf32>
    %0 = linalg.exp {lemur.device = "a", lemur.values = ["v0"], lemur.cost = {flops = 2 : i64, bytes_read = 8 : i64, bytes_written = 8 : i64, live_bytes = 32 : i64}} ins(%x : tensor<2xf32>) outs(%d : tensor<2xf32>) -> tensor<2xf32>
    %1 = linalg.exp {lemur.device = "b"} ins(%0 : tensor<2xf32>) outs(%d : tensor<2xf32>) -> tensor<2xf32>
    %2 = linalg.broadcast ins(%x : tensor<2xf32>) outs(%e : tensor<3x2xf32>) dimensions = [0] {lemur.device = "a", lemur.values = ["v2"], lemur.cost = {flops = 2000000 : i64, bytes_read = 8 : i64, bytes_written = 24 : i64, live_bytes = 32 : i64}}
    %3 = linalg.exp {lemur.device = "b"} ins(%2 : tensor<3x2xf32>) outs(%e : tensor<3x2xf32>) -> tensor<3x2xf32>
    %4 = linalg.broadcast ins(%x : tensor<2xf32>) outs(%e : tensor<3x2xf32>) dimensions = [0] {lemur.device = "a", lemur.values = ["v4"], lemur.cost = {flops = 0 : i64, bytes_read = 8 : i64, bytes_written = 24 : i64, live_bytes = 32 : i64}}
    %5 = linalg.exp {lemur.device = "c"} ins(%4 : tensor<3x2xf32>) outs(%e : tensor<3x2xf32>) -> tensor<3x2xf32>
    return %1, %3, %5 : tensor<2xf32>, tensor<3x2xf32>, tensor<3x2xf32>
  }
}
