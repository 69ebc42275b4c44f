// REQUIRES: cpu-kernels
// RUN: lemurc opt -p select-kernels{arch=x86-64-v3} --split-input-file %s | filecheck %s

// A linear layer with its activation is one dispatch, on a weight in panels.
// CHECK-LABEL: module @stage0
// CHECK:         stream.executable private @kernel_linear_0
// CHECK:           #hal.executable.object<{path = "linear.bc"
// CHECK:           stream.executable.export public @kernel_linear_0
// CHECK:           call @lemurc_linear
// CHECK:         func.func @run([[X:%[a-z0-9]+]]: tensor<4x8xf32>,
// CHECK-SAME:      [[P:%[a-z0-9]+]]: tensor<2x8x16xf32> {lemur.param = "w@panels16"})
// CHECK-NEXT:      [[Y:%.+]] = flow.dispatch @kernel_linear_0::@kernel_linear_0([[X]], [[P]],
// CHECK-NEXT:      return [[Y]]
module @stage0 {
  func.func @run(%x: tensor<4x8xf32>, %w: tensor<20x8xf32> {lemur.param = "w"},
                 %b: tensor<20xf32> {lemur.param = "b"}) -> tensor<4x20xf32> {
    %0 = "func.call"(%x, %w, %b) <{callee = @linear_0, no_inline}>
      : (tensor<4x8xf32>, tensor<20x8xf32>, tensor<20xf32>) -> tensor<4x20xf32>
    %1 = "func.call"(%0) <{callee = @gelu_0, no_inline}> : (tensor<4x20xf32>) -> tensor<4x20xf32>
    return %1 : tensor<4x20xf32>
  }
  func.func private @linear_0(%x: tensor<4x8xf32>, %w: tensor<20x8xf32>, %b: tensor<20xf32>)
      -> tensor<4x20xf32> attributes {lemur.composite = "linear", no_inline} {
    %0 = tensor.empty() : tensor<4x20xf32>
    return %0 : tensor<4x20xf32>
  }
  func.func private @gelu_0(%x: tensor<4x20xf32>) -> tensor<4x20xf32>
      attributes {lemur.composite = "gelu", lemur.approximate = "none", no_inline} {
    return %x : tensor<4x20xf32>
  }
}

// -----

// The hyperbolic GELU and a product of two activations have no kernel.
// CHECK-LABEL: module @stage1
// CHECK-NOT:     flow.dispatch
module @stage1 {
  func.func @run(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = "func.call"(%x, %x) <{callee = @matmul_0, no_inline}>
      : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = "func.call"(%0) <{callee = @gelu_0, no_inline}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %1 : tensor<4x4xf32>
  }
  func.func private @matmul_0(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32>
      attributes {lemur.composite = "matmul", no_inline} {
    return %a : tensor<4x4xf32>
  }
  func.func private @gelu_0(%x: tensor<4x4xf32>) -> tensor<4x4xf32>
      attributes {lemur.composite = "gelu", lemur.approximate = "tanh", no_inline} {
    return %x : tensor<4x4xf32>
  }
}

// -----

// A 3x3 convolution goes by tiles: one dispatch transforms the image, the next takes that, the
// weight in panels, and the image as it is for what is not finite.
// CHECK-LABEL: module @stage2
// CHECK:         stream.executable private @kernel_winograd_1
// CHECK:           call @lemurc_winograd(
// CHECK:         stream.executable private @kernel_winograd_input_0
// CHECK:           call @lemurc_winograd_input(
// CHECK:         func.func @run([[X:%[a-z0-9]+]]: tensor<1x16x8x8xf32>,
// CHECK-SAME:      [[W:%[a-z0-9]+]]: tensor<2x144x16xf32> {lemur.param = "w@panels16"})
// CHECK-NEXT:      [[V:%.+]] = flow.dispatch @kernel_winograd_input_0::{{.*}}([[X]])
// CHECK-SAME:        -> tensor<1x1x36x17x4xf32>
// CHECK-NEXT:      flow.dispatch @kernel_winograd_1::{{.*}}([[V]], [[W]], [[X]], [[X]])
module @stage2 {
  func.func @run(%x: tensor<1x16x8x8xf32>, %w: tensor<32x16x3x3xf32> {lemur.param = "w"})
      -> tensor<1x32x8x8xf32> {
    %0 = "func.call"(%x, %w) <{callee = @conv_0, no_inline}>
      : (tensor<1x16x8x8xf32>, tensor<32x16x3x3xf32>) -> tensor<1x32x8x8xf32>
    return %0 : tensor<1x32x8x8xf32>
  }
  func.func private @conv_0(%x: tensor<1x16x8x8xf32>, %w: tensor<32x16x3x3xf32>)
      -> tensor<1x32x8x8xf32>
      attributes {lemur.composite = "conv", lemur.operands = ["input", "weight"],
                  lemur.stride = array<i64: 1, 1>, lemur.padding = array<i64: 1, 1>,
                  lemur.dilation = array<i64: 1, 1>, lemur.groups = 1 : i64,
                  lemur.transposed = false, no_inline} {
    %0 = tensor.empty() : tensor<1x32x8x8xf32>
    return %0 : tensor<1x32x8x8xf32>
  }
}

// -----

// Norms and softmax over the last dimension go by rows; softmax over another is IREE's.
// CHECK-LABEL: module @stage3
// CHECK:         call @lemurc_silu
// CHECK:         call @lemurc_rms_norm
// CHECK:         call @lemurc_softmax
// CHECK:         func.func @run([[X:%[a-z0-9]+]]: tensor<4x8xf32>, [[W:%[a-z0-9]+]]: tensor<8xf32>)
// CHECK-NEXT:      [[A:%.+]] = flow.dispatch @kernel_softmax_0::@kernel_softmax_0([[X]]) :
// CHECK-NEXT:      [[B:%.+]] = flow.dispatch @kernel_rms_norm_1::@kernel_rms_norm_1([[A]], [[W]]) :
// CHECK-NEXT:      [[C:%.+]] = flow.dispatch @kernel_silu_2::@kernel_silu_2([[B]]) :
// CHECK-NEXT:      [[D:%.+]] = call @softmax_1([[C]])
// CHECK-NEXT:      return [[D]]
module @stage3 {
  func.func @run(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32> {
    %0 = "func.call"(%x) <{callee = @softmax_0, no_inline}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %1 = "func.call"(%0, %w) <{callee = @rms_norm_0, no_inline}>
      : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %2 = "func.call"(%1) <{callee = @silu_0, no_inline}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = "func.call"(%2) <{callee = @softmax_1, no_inline}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %3 : tensor<4x8xf32>
  }
  func.func private @softmax_0(%x: tensor<4x8xf32>) -> tensor<4x8xf32>
      attributes {lemur.composite = "softmax", lemur.dim = 1 : i64, no_inline} {
    return %x : tensor<4x8xf32>
  }
  func.func private @softmax_1(%x: tensor<4x8xf32>) -> tensor<4x8xf32>
      attributes {lemur.composite = "softmax", lemur.dim = 0 : i64, no_inline} {
    return %x : tensor<4x8xf32>
  }
  func.func private @rms_norm_0(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32>
      attributes {lemur.composite = "rms_norm", lemur.operands = ["input", "weight"],
                  lemur.eps = 1.0e-5 : f64,
                  lemur.normalized_rank = 1 : i64, no_inline} {
    return %x : tensor<4x8xf32>
  }
  func.func private @silu_0(%x: tensor<4x8xf32>) -> tensor<4x8xf32>
      attributes {lemur.composite = "silu", no_inline} {
    return %x : tensor<4x8xf32>
  }
}
