// RUN: lemurc opt -p simplify --split-input-file %s | filecheck %s

// CHECK-LABEL: func.func @transposes
// CHECK-SAME:    ([[X:%.+]]: tensor<2x3x5xf32>)
// CHECK-NEXT:    return [[X]]
func.func @transposes(%x: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %e = tensor.empty() : tensor<5x2x3xf32>
  %0 = linalg.transpose ins(%x : tensor<2x3x5xf32>) outs(%e : tensor<5x2x3xf32>) permutation = [2, 0, 1]
  %f = tensor.empty() : tensor<2x3x5xf32>
  %1 = linalg.transpose ins(%0 : tensor<5x2x3xf32>) outs(%f : tensor<2x3x5xf32>) permutation = [1, 2, 0]
  return %1 : tensor<2x3x5xf32>
}

// A lone transpose stays.
// CHECK-LABEL: func.func @alone
// CHECK:         linalg.transpose
func.func @alone(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %e = tensor.empty() : tensor<3x2xf32>
  %0 = linalg.transpose ins(%x : tensor<2x3xf32>) outs(%e : tensor<3x2xf32>) permutation = [1, 0]
  return %0 : tensor<3x2xf32>
}

// -----

// A chain of unread calls, their composites and their weight go; the unread input stays.
// CHECK-NOT:   composite
// CHECK:       func.func @main([[X:%.+]]: tensor<2xf32> {lemur.input = 0 : i64}, %{{.+}}: tensor<2xf32> {lemur.input = 1 : i64}) -> tensor<2xf32>
// CHECK-NEXT:    return [[X]]
func.func private @gelu_0(%x: tensor<2xf32>, %w: tensor<2xf32>) -> tensor<2xf32> attributes {lemur.composite = "gelu", no_inline} {
  return %x : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32> {lemur.input = 0 : i64}, %w: tensor<2xf32> {lemur.param = "w"}, %y: tensor<2xf32> {lemur.input = 1 : i64}) -> tensor<2xf32> {
  %0 = call @gelu_0(%y, %w) {no_inline} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = call @gelu_0(%0, %w) {no_inline} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %x : tensor<2xf32>
}

// -----

// Used composites, weights and state stay, and so does the function of the driver.
// CHECK:       func.func private @__parameters
// CHECK:       func.func private @gelu_0
// CHECK:       func.func @main
// CHECK-SAME:    lemur.param = "w"
// CHECK-SAME:    lemur.state = "s"
// CHECK:         call @gelu_0
func.func private @__parameters(%w: tensor<2xf32> {lemur.param = "w"}) -> (tensor<2xf32> {lemur.param = "derived.0"}) attributes {lemur.parameters} {
  return %w : tensor<2xf32>
}
func.func private @gelu_0(%x: tensor<2xf32>) -> tensor<2xf32> attributes {lemur.composite = "gelu", no_inline} {
  return %x : tensor<2xf32>
}
func.func @main(%w: tensor<2xf32> {lemur.param = "w"}, %s: tensor<2xf32> {lemur.state = "s"}) -> tensor<2xf32> {
  %0 = call @gelu_0(%w) {no_inline} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
