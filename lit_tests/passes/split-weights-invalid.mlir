// RUN: lemurc opt -p "annotate-cost,split-weights{splits=hed=2}" --verify-diagnostics %s

// expected-error@unknown {{split 'hed' matches no module of the model}}
module attributes {lemur.system = {devices = [{name = "a", target = "cpu", memory = 130000 : i64}, {name = "b", target = "cpu", memory = 65000 : i64}]}} {
func.func private @linear_0(%x: tensor<1x64xf32>, %w: tensor<512x64xf32>, %b: tensor<512xf32>) -> tensor<1x512xf32> attributes {lemur.composite = "linear", lemur.module_path = "head", lemur.operands = ["input", "weight", "bias"], no_inline} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x512xf32>
  %t = linalg.transpose ins(%w : tensor<512x64xf32>) outs(%e : tensor<64x512xf32>) permutation = [1, 0]
  %o = tensor.empty() : tensor<1x512xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<1x512xf32>) -> tensor<1x512xf32>
  %r = linalg.matmul ins(%x, %t : tensor<1x64xf32>, tensor<64x512xf32>) outs(%f : tensor<1x512xf32>) -> tensor<1x512xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%r, %b : tensor<1x512xf32>, tensor<512xf32>) outs(%o : tensor<1x512xf32>) {
  ^bb0(%p: f32, %q: f32, %u: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<1x512xf32>
  return %a : tensor<1x512xf32>
}
func.func @unmatched(%x: tensor<1x64xf32> {lemur.input = 0 : i64}, %w: tensor<512x64xf32> {lemur.param = "head.weight"}, %b: tensor<512xf32> {lemur.param = "head.bias"}) -> tensor<1x512xf32> {
  %0 = call @linear_0(%x, %w, %b) {no_inline} : (tensor<1x64xf32>, tensor<512x64xf32>, tensor<512xf32>) -> tensor<1x512xf32>
  return %0 : tensor<1x512xf32>
}
}
