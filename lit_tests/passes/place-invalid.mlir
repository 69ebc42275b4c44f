// RUN: lemurc opt -p annotate-cost,place --split-input-file --verify-diagnostics %s

// expected-error@unknown {{pin 'midd' matches nothing of the model}}
module attributes {lemur.system = {devices = [{name = "cpu", target = "cpu", flops = {f32 = 1.0e11 : f64}}, {name = "gpu", target = "vulkan", flops = {f32 = 1.0e13 : f64}}], links = [{src = "cpu", dst = "gpu", bandwidth = 1.0e10 : f64, latency = 1.0e-5 : f64}], pins = [["midd", "gpu"]]}} {
func.func private @linear_0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> attributes {lemur.composite = "linear", lemur.module_path = "mid", no_inline} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %t = linalg.transpose ins(%w : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) permutation = [1, 0]
  %o = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = linalg.matmul ins(%x, %t : tensor<4x8xf32>, tensor<8x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
func.func @main(%x: tensor<4x8xf32> {lemur.input = 0 : i64}, %w: tensor<8x8xf32> {lemur.param = "w"}, %u: tensor<8x8xf32> {lemur.param = "u"}) -> tensor<4x8xf32> {
  %0 = call @linear_0(%x, %w) {no_inline} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
}

// -----

// expected-error@unknown {{'linear' is pinned to 'cpu', which cannot run it: kind linear}}
module attributes {lemur.system = {devices = [{name = "cpu", target = "cpu", flops = {f32 = 1.0e11 : f64}, illegal_kinds = ["linear"]}, {name = "gpu", target = "vulkan", flops = {f32 = 1.0e13 : f64}}], links = [{src = "cpu", dst = "gpu", bandwidth = 1.0e10 : f64, latency = 1.0e-5 : f64}], pins = [["mid", "cpu"]]}} {
func.func private @linear_0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> attributes {lemur.composite = "linear", lemur.module_path = "mid", no_inline} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %t = linalg.transpose ins(%w : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) permutation = [1, 0]
  %o = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = linalg.matmul ins(%x, %t : tensor<4x8xf32>, tensor<8x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
func.func @main(%x: tensor<4x8xf32> {lemur.input = 0 : i64}, %w: tensor<8x8xf32> {lemur.param = "w"}, %u: tensor<8x8xf32> {lemur.param = "u"}) -> tensor<4x8xf32> {
  %0 = call @linear_0(%x, %w) {no_inline} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
}

// -----

// expected-error@unknown {{no device can run 'linalg.exp': cpu: type f32}}
module attributes {lemur.system = {devices = [{name = "cpu", target = "cpu", illegal_types = ["f32"]}]}} {
func.func @main(%x: tensor<4x8xf32> {lemur.input = 0 : i64}) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.exp ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
}

// -----

// Its 8 rows of 32 bytes are packed as one tile of 16.
// expected-error@unknown {{no placement fits the devices' memory: 512 B of packed weights}}
module attributes {lemur.system = {devices = [{name = "a", target = "cpu", memory = 300 : i64}, {name = "b", target = "cuda", memory = 100 : i64}]}} {
func.func private @linear_0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> attributes {lemur.composite = "linear", lemur.module_path = "mid", no_inline} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %t = linalg.transpose ins(%w : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) permutation = [1, 0]
  %o = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = linalg.matmul ins(%x, %t : tensor<4x8xf32>, tensor<8x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
func.func @main(%x: tensor<4x8xf32> {lemur.input = 0 : i64}, %w: tensor<8x8xf32> {lemur.param = "w"}, %u: tensor<8x8xf32> {lemur.param = "u"}) -> tensor<4x8xf32> {
  %0 = call @linear_0(%x, %w) {no_inline} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
}

// -----

// expected-error@unknown {{no device can run 'my::f': cpu: it has no code}}
module attributes {lemur.system = {devices = [{name = "cpu", target = "cpu"}]}} {
  func.func private @f(tensor<2xf32>) -> tensor<2xf32>
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = call @f(%x) {lemur.host = {op = "my::f", arguments = [{tensor = 0 : i64}], inputs = ["float32"], results = ["float32"]}} : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
