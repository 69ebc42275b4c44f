// REQUIRES: ortools
// RUN: lemurc opt -p annotate-cost,place --split-input-file %s | filecheck %s

// No system: one CPU, and nothing to decide.
// CHECK-LABEL: func.func @alone
// CHECK-SAME:    solver = "no choice"
// CHECK:         call @linear_0{{.*}}lemur.device = "cpu"
func.func private @linear_0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> attributes {lemur.composite = "linear", lemur.module_path = "mid", no_inline} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %t = linalg.transpose ins(%w : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) permutation = [1, 0]
  %o = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = linalg.matmul ins(%x, %t : tensor<4x8xf32>, tensor<8x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
func.func @alone(%x: tensor<4x8xf32> {lemur.input = 0 : i64}, %w: tensor<8x8xf32> {lemur.param = "w"}, %u: tensor<8x8xf32> {lemur.param = "u"}) -> tensor<4x8xf32> {
  %0 = call @linear_0(%x, %w) {no_inline} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// Crossing costs more than so little work gains.
// CHECK-LABEL: func.func @small
// CHECK-SAME:    solver = "optimal"
// CHECK:         call @linear_0{{.*}}lemur.device = "cpu"
module attributes {lemur.system = {devices = [{name = "cpu", target = "cpu", flops = {f32 = 1.0e11 : f64}}, {name = "gpu", target = "vulkan", flops = {f32 = 1.0e13 : f64}}], links = [{src = "cpu", dst = "gpu", bandwidth = 1.0e10 : f64, latency = 1.0e-5 : f64}], pins = []}} {
func.func private @linear_0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> attributes {lemur.composite = "linear", lemur.module_path = "mid", no_inline} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %t = linalg.transpose ins(%w : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) permutation = [1, 0]
  %o = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = linalg.matmul ins(%x, %t : tensor<4x8xf32>, tensor<8x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
func.func @small(%x: tensor<4x8xf32> {lemur.input = 0 : i64}, %w: tensor<8x8xf32> {lemur.param = "w"}, %u: tensor<8x8xf32> {lemur.param = "u"}) -> tensor<4x8xf32> {
  %0 = call @linear_0(%x, %w) {no_inline} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
}

// -----

// A pin is obeyed, and costs its neighbours nothing.
// CHECK-LABEL: func.func @pinned
// CHECK-SAME:    gpu = {ops = 1 : i64, {{.*}}, why = "1 pinned"}
// CHECK:         call @linear_0{{.*}}lemur.device = "gpu"
// CHECK:         linalg.exp {{.*}}lemur.device = "cpu"
module attributes {lemur.system = {devices = [{name = "cpu", target = "cpu", flops = {f32 = 1.0e11 : f64}}, {name = "gpu", target = "vulkan", flops = {f32 = 1.0e13 : f64}}], links = [{src = "cpu", dst = "gpu", bandwidth = 1.0e10 : f64, latency = 1.0e-5 : f64}], pins = [["mid", "gpu"]]}} {
func.func private @linear_0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> attributes {lemur.composite = "linear", lemur.module_path = "mid", no_inline} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %t = linalg.transpose ins(%w : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) permutation = [1, 0]
  %o = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = linalg.matmul ins(%x, %t : tensor<4x8xf32>, tensor<8x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
func.func @pinned(%x: tensor<4x8xf32> {lemur.input = 0 : i64}, %w: tensor<8x8xf32> {lemur.param = "w"}, %u: tensor<8x8xf32> {lemur.param = "u"}) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = call @linear_0(%x, %w) {no_inline} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = linalg.exp ins(%0 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = linalg.exp ins(%x : tensor<4x8xf32>) outs(%1 : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
}

// -----

// By hand: what makes the input of a pin, and a transfer itself.
// CHECK-LABEL: func.func @markers
// CHECK:         linalg.exp {{.*}}lemur.device = "gpu"
// CHECK:         "lemur.transfer"{{.*}}lemur.device = "gpu"
module attributes {lemur.system = {devices = [{name = "cpu", target = "cpu", flops = {f32 = 1.0e11 : f64}}, {name = "gpu", target = "vulkan", flops = {f32 = 1.0e13 : f64}}], links = [{src = "cpu", dst = "gpu", bandwidth = 1.0e10 : f64, latency = 1.0e-5 : f64}], pins = []}} {
func.func @markers(%x: tensor<4x8xf32> {lemur.input = 0 : i64}) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.exp ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = "lemur.pin"(%0) {device = "gpu"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = "lemur.transfer"(%x) {device = "gpu"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}
}

// -----

// The only device that can.
// CHECK-LABEL: func.func @not_legal
// CHECK-SAME:    why = "1 not legal elsewhere"
// CHECK:         linalg.exp {{.*}}lemur.device = "gpu"
module attributes {lemur.system = {devices = [{name = "cpu", target = "cpu", flops = {f32 = 1.0e11 : f64}, illegal_types = ["f32"]}, {name = "gpu", target = "vulkan", flops = {f32 = 1.0e13 : f64}}], links = [{src = "cpu", dst = "gpu", bandwidth = 1.0e10 : f64, latency = 1.0e-5 : f64}], pins = []}} {
func.func @not_legal(%x: tensor<4x8xf32> {lemur.input = 0 : i64}) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.exp ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
}

// -----

// A group whose members are pinned apart is opened; names inside come from its own.
// CHECK-LABEL: func.func @group
// CHECK-NEXT:    call @linear_0{{.*}}lemur.device = "gpu"{{.*}}lemur.values = ["v0.0"]
// CHECK-NEXT:    call @gelu_0{{.*}}lemur.device = "cpu"{{.*}}lemur.values = ["v0"]
// CHECK-NOT:   fused
module attributes {lemur.system = {devices = [{name = "cpu", target = "cpu", flops = {f32 = 1.0e11 : f64}}, {name = "gpu", target = "vulkan", flops = {f32 = 1.0e13 : f64}}], links = [{src = "cpu", dst = "gpu", bandwidth = 1.0e10 : f64, latency = 1.0e-5 : f64}], pins = [["mid", "gpu"]]}} {
func.func private @linear_0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> attributes {lemur.composite = "linear", lemur.module_path = "mid", no_inline} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %t = linalg.transpose ins(%w : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) permutation = [1, 0]
  %o = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = linalg.matmul ins(%x, %t : tensor<4x8xf32>, tensor<8x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
func.func private @gelu_0(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {lemur.composite = "gelu", lemur.module_path = "act", no_inline} {
  %o = tensor.empty() : tensor<4x8xf32>
  %r = linalg.tanh ins(%x : tensor<4x8xf32>) outs(%o : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
func.func private @fused_0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> attributes {lemur.composite = "fused", no_inline} {
  %0 = call @linear_0(%x, %w) {no_inline} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = call @gelu_0(%0) {no_inline} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
func.func @group(%x: tensor<4x8xf32> {lemur.input = 0 : i64}, %w: tensor<8x8xf32> {lemur.param = "w"}, %u: tensor<8x8xf32> {lemur.param = "u"}) -> tensor<4x8xf32> {
  %0 = call @fused_0(%x, %w) {no_inline} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
}
