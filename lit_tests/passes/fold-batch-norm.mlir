// RUN: lemurc opt -p fold-batch-norm --split-input-file %s | filecheck %s

// The convolution gets a bias, both computed from weights; the norm is gone.
// CHECK:       func.func private @conv_0_bias(%{{.+}}: tensor<1x3x4x4xf32>, %{{.+}}: tensor<8x3x1x1xf32>, %{{.+}}: tensor<8xf32>)
// CHECK-SAME:    lemur.operands = ["input", "weight", "bias"]
// CHECK:         linalg.conv_2d_nchw_fchw
// CHECK-NEXT:    linalg.generic
// CHECK:           arith.addf
// CHECK-NOT:   batch_norm
// CHECK:       func.func @main([[X:%.+]]: tensor<1x3x4x4xf32>
// CHECK:         [[W:%.+]] = linalg.generic
// CHECK:           math.sqrt
// CHECK:         -> tensor<8x3x1x1xf32>
// CHECK:         [[B:%.+]] = linalg.generic
// CHECK:         -> tensor<8xf32>
// CHECK:         [[Y:%.+]] = call @conv_0_bias([[X]], [[W]], [[B]]) {no_inline}
// CHECK-NEXT:    return [[Y]]
func.func private @conv_0(%x: tensor<1x3x4x4xf32>, %w: tensor<8x3x1x1xf32>) -> tensor<1x8x4x4xf32> attributes {lemur.composite = "conv", lemur.operands = ["input", "weight"], lemur.groups = 1 : i64, lemur.transposed = false, no_inline} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x4x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x3x4x4xf32>, tensor<8x3x1x1xf32>) outs(%f : tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
  return %r : tensor<1x8x4x4xf32>
}
func.func private @batch_norm_0(%x: tensor<1x8x4x4xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>) -> tensor<1x8x4x4xf32> attributes {lemur.composite = "batch_norm", lemur.operands = ["input", "weight", "bias", "mean", "variance"], lemur.eps = 1.0e-05 : f64, no_inline} {
  return %x : tensor<1x8x4x4xf32>
}
func.func @main(%x: tensor<1x3x4x4xf32> {lemur.input = 0 : i64}, %w: tensor<8x3x1x1xf32> {lemur.param = "w"}, %g: tensor<8xf32> {lemur.param = "g"}, %b: tensor<8xf32> {lemur.param = "b"}, %m: tensor<8xf32> {lemur.param = "m"}, %v: tensor<8xf32> {lemur.param = "v"}) -> tensor<1x8x4x4xf32> {
  %0 = call @conv_0(%x, %w) {no_inline} : (tensor<1x3x4x4xf32>, tensor<8x3x1x1xf32>) -> tensor<1x8x4x4xf32>
  %1 = call @batch_norm_0(%0, %g, %b, %m, %v) {no_inline} : (tensor<1x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x4x4xf32>
  return %1 : tensor<1x8x4x4xf32>
}

// -----

// Someone else reads the convolution.
// CHECK-LABEL: func.func @two_readers
// CHECK:         call @conv_0(
// CHECK:         call @batch_norm_0
func.func private @conv_0(%x: tensor<1x3x4x4xf32>, %w: tensor<8x3x1x1xf32>) -> tensor<1x8x4x4xf32> attributes {lemur.composite = "conv", lemur.operands = ["input", "weight"], lemur.groups = 1 : i64, lemur.transposed = false, no_inline} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x4x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x3x4x4xf32>, tensor<8x3x1x1xf32>) outs(%f : tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
  return %r : tensor<1x8x4x4xf32>
}
func.func private @batch_norm_0(%x: tensor<1x8x4x4xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>) -> tensor<1x8x4x4xf32> attributes {lemur.composite = "batch_norm", lemur.operands = ["input", "weight", "bias", "mean", "variance"], lemur.eps = 1.0e-05 : f64, no_inline} {
  return %x : tensor<1x8x4x4xf32>
}
func.func @two_readers(%x: tensor<1x3x4x4xf32> {lemur.input = 0 : i64}, %w: tensor<8x3x1x1xf32> {lemur.param = "w"}, %g: tensor<8xf32> {lemur.param = "g"}, %b: tensor<8xf32> {lemur.param = "b"}, %m: tensor<8xf32> {lemur.param = "m"}, %v: tensor<8xf32> {lemur.param = "v"}) -> (tensor<1x8x4x4xf32>, tensor<1x8x4x4xf32>) {
  %0 = call @conv_0(%x, %w) {no_inline} : (tensor<1x3x4x4xf32>, tensor<8x3x1x1xf32>) -> tensor<1x8x4x4xf32>
  %1 = call @batch_norm_0(%0, %g, %b, %m, %v) {no_inline} : (tensor<1x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x4x4xf32>
  return %0, %1 : tensor<1x8x4x4xf32>, tensor<1x8x4x4xf32>
}

// -----

// The filter is an input of the call.
// CHECK-LABEL: func.func @not_a_weight
// CHECK:         call @conv_0(
// CHECK:         call @batch_norm_0
func.func private @conv_0(%x: tensor<1x3x4x4xf32>, %w: tensor<8x3x1x1xf32>) -> tensor<1x8x4x4xf32> attributes {lemur.composite = "conv", lemur.operands = ["input", "weight"], lemur.groups = 1 : i64, lemur.transposed = false, no_inline} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x4x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x3x4x4xf32>, tensor<8x3x1x1xf32>) outs(%f : tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
  return %r : tensor<1x8x4x4xf32>
}
func.func private @batch_norm_0(%x: tensor<1x8x4x4xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>) -> tensor<1x8x4x4xf32> attributes {lemur.composite = "batch_norm", lemur.operands = ["input", "weight", "bias", "mean", "variance"], lemur.eps = 1.0e-05 : f64, no_inline} {
  return %x : tensor<1x8x4x4xf32>
}
func.func @not_a_weight(%x: tensor<1x3x4x4xf32> {lemur.input = 0 : i64}, %w: tensor<8x3x1x1xf32> {lemur.input = 1 : i64}, %g: tensor<8xf32> {lemur.param = "g"}, %b: tensor<8xf32> {lemur.param = "b"}, %m: tensor<8xf32> {lemur.param = "m"}, %v: tensor<8xf32> {lemur.param = "v"}) -> tensor<1x8x4x4xf32> {
  %0 = call @conv_0(%x, %w) {no_inline} : (tensor<1x3x4x4xf32>, tensor<8x3x1x1xf32>) -> tensor<1x8x4x4xf32>
  %1 = call @batch_norm_0(%0, %g, %b, %m, %v) {no_inline} : (tensor<1x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x4x4xf32>
  return %1 : tensor<1x8x4x4xf32>
}

// -----

// CHECK-LABEL: func.func @transposed
// CHECK:         call @conv_0(
// CHECK:         call @batch_norm_0
func.func private @conv_0(%x: tensor<1x3x4x4xf32>, %w: tensor<8x3x1x1xf32>) -> tensor<1x8x4x4xf32> attributes {lemur.composite = "conv", lemur.operands = ["input", "weight"], lemur.groups = 1 : i64, lemur.transposed = true, no_inline} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x4x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x3x4x4xf32>, tensor<8x3x1x1xf32>) outs(%f : tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
  return %r : tensor<1x8x4x4xf32>
}
func.func private @batch_norm_0(%x: tensor<1x8x4x4xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>) -> tensor<1x8x4x4xf32> attributes {lemur.composite = "batch_norm", lemur.operands = ["input", "weight", "bias", "mean", "variance"], lemur.eps = 1.0e-05 : f64, no_inline} {
  return %x : tensor<1x8x4x4xf32>
}
func.func @transposed(%x: tensor<1x3x4x4xf32> {lemur.input = 0 : i64}, %w: tensor<8x3x1x1xf32> {lemur.param = "w"}, %g: tensor<8xf32> {lemur.param = "g"}, %b: tensor<8xf32> {lemur.param = "b"}, %m: tensor<8xf32> {lemur.param = "m"}, %v: tensor<8xf32> {lemur.param = "v"}) -> tensor<1x8x4x4xf32> {
  %0 = call @conv_0(%x, %w) {no_inline} : (tensor<1x3x4x4xf32>, tensor<8x3x1x1xf32>) -> tensor<1x8x4x4xf32>
  %1 = call @batch_norm_0(%0, %g, %b, %m, %v) {no_inline} : (tensor<1x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x4x4xf32>
  return %1 : tensor<1x8x4x4xf32>
}
