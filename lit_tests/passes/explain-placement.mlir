// RUN: lemurc opt -p 'fuse{explain=true},annotate-cost,place{explain=true},explain-placement{globs=a}' --split-input-file %s | filecheck %s

// The contraction takes the bias, not the softmax; a pin holds it where it is dear.
module attributes {lemur.system = {
    devices = [{name = "cpu", target = "cpu", flops = 1.0e9, bandwidth = 1.0e9, launch = 1.0e-6},
               {name = "gpu", target = "vulkan", flops = 1.0e12, bandwidth = 1.0e12, launch = 1.0e-6,
                illegal_kinds = ["softmax"]}],
    links = [{src = "cpu", dst = "gpu", latency = 1.0e-5, bandwidth = 1.0e9}],
    pins = [["a.fc", "gpu"]]}} {

// CHECK-LABEL: func.func @main
// CHECK-SAME:  lemur.explanation = {
// All of it cannot go: one kind is illegal on the gpu, the rest could come back.
// CHECK-SAME:  modules = [{alternatives = [
// CHECK-SAME:    device = "cpu"
// CHECK-SAME:    seconds =
// CHECK-SAME:    {device = "gpu", why_not = "kind softmax (of 1)"}
// CHECK-SAME:    devices = {cpu = 1 : i64, gpu = 1 : i64}, glob = "a", operations = 2 : i64
// CHECK-SAME:  operations = [{
// CHECK-SAME:    alternatives = [{call_seconds = {{.+}}, device = "cpu", fits = true
// CHECK-SAME:    apart = [{kind = "softmax", path = "a.act", role = "reader", why = "softmax is not elementwise"}]
// CHECK-SAME:    device = "gpu", flops = {{[0-9]+}} : i64, kind = "add+linear"
// CHECK-SAME:    members = ["linear", "add"], needs = ["input:0"], paths = ["a.fc"], pins = ["a.fc=gpu"]
// CHECK-SAME:    value = "v0", values = ["v0"], why = "pinned"}
// CHECK-SAME:    alternatives = [{device = "gpu", why_not = "kind softmax"}]
// CHECK-SAME:    apart = [{kind = "add", path = "a.fc", role = "input", why = "softmax is not elementwise"}]
// CHECK-SAME:    kind = "softmax"
// CHECK-SAME:    pins = []
// CHECK-SAME:    why = "not legal elsewhere"}
func.func private @linear_0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> attributes {lemur.composite = "linear", lemur.module_path = "a.fc", no_inline} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %t = linalg.transpose ins(%w : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) permutation = [1, 0]
  %o = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = linalg.matmul ins(%x, %t : tensor<4x8xf32>, tensor<8x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
func.func private @softmax_0(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {lemur.composite = "softmax", lemur.module_path = "a.act", no_inline} {
  %o = tensor.empty() : tensor<4x8xf32>
  %r = linalg.exp ins(%x : tensor<4x8xf32>) outs(%o : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
func.func @main(%x: tensor<4x8xf32> {lemur.input = 0 : i64}, %w: tensor<8x8xf32> {lemur.param = "w"}) -> tensor<4x8xf32> {
  %0 = call @linear_0(%x, %w) {no_inline} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %1 = linalg.add ins(%0, %x : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32> loc("a.fc"("a.py":1:0))
  %2 = call @softmax_0(%1) {no_inline} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
}

// -----

// A group whose members are pinned apart is taken apart, and says so.
module attributes {lemur.system = {
    devices = [{name = "cpu", target = "cpu"}, {name = "gpu", target = "vulkan"}],
    pins = [["a", "cpu"], ["a.tail", "gpu"]]}} {
// CHECK-LABEL: func.func @apart
// CHECK-SAME:  operations = [{
// CHECK-SAME:    apart = [{kind = "fused", path = "a.head", role = "group", why = "members are pinned to cpu, gpu"}]
// CHECK-SAME:    device = "cpu"
// CHECK-SAME:    apart = [{kind = "fused", path = "a.tail", role = "group", why = "members are pinned to cpu, gpu"}]
// CHECK-SAME:    device = "gpu"
// CHECK-SAME:    pins = ["a=cpu", "a.tail=gpu"]
func.func private @fused_0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {lemur.composite = "fused", lemur.module_path = "a", no_inline} {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.exp ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32> loc("a.head"("a.py":1:0))
  %1 = linalg.tanh ins(%0 : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32> loc("a.tail"("a.py":2:0))
  return %1 : tensor<4xf32>
}
func.func @apart(%x: tensor<4xf32> {lemur.input = 0 : i64}) -> tensor<4xf32> {
  %0 = call @fused_0(%x) {no_inline} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
}
