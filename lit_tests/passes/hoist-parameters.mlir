// RUN: lemurc opt -p hoist-parameters --split-input-file %s | filecheck %s
// RUN: lemurc opt -p 'hoist-parameters{max_growth=4}' --split-input-file %s | filecheck --check-prefix=GROW %s

// Both entries share one derived weight; the activation's work stays.
// CHECK:       func.func private @__parameters([[W:%.+]]: tensor<4xf32> {lemur.param = "w"}) -> (tensor<4xf32> {lemur.param = "derived.0"}) attributes {lemur.parameters}
// CHECK:         [[D:%.+]] = linalg.exp ins([[W]]
// CHECK-NEXT:    return [[D]]
// CHECK:       func.func @prefill([[X:%.+]]: tensor<4xf32> {lemur.input = 0 : i64}, [[D:%.+]]: tensor<4xf32> {lemur.param = "derived.0"})
// CHECK-NEXT:    tensor.empty
// CHECK-NEXT:    linalg.add ins([[X]], [[D]]
// CHECK-NOT:     linalg.exp
// CHECK:       func.func @decode
// CHECK-SAME:    lemur.param = "derived.0"
// CHECK-NOT:     linalg.exp
// CHECK:         linalg.sub
func.func @prefill(%w: tensor<4xf32> {lemur.param = "w"}, %x: tensor<4xf32> {lemur.input = 0 : i64}) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.exp ins(%w : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %1 = linalg.add ins(%x, %0 : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func @decode(%x: tensor<4xf32> {lemur.input = 0 : i64}, %w: tensor<4xf32> {lemur.param = "w"}) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.exp ins(%w : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %1 = linalg.sub ins(%x, %0 : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// A broadcast grows: what it reads is stored, unless growth is allowed.
// CHECK:       func.func private @__parameters({{.+}}) -> (tensor<4xf32> {lemur.param = "derived.0"})
// CHECK-LABEL: func.func @broadcast
// CHECK:         linalg.broadcast
// GROW:        func.func private @__parameters({{.+}}) -> (tensor<3x4xf32> {lemur.param = "derived.0"})
// GROW-LABEL:  func.func @broadcast
// GROW-NOT:      linalg.broadcast
func.func @broadcast(%w: tensor<4xf32> {lemur.param = "w"}, %x: tensor<3x4xf32> {lemur.input = 0 : i64}) -> tensor<3x4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.exp ins(%w : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %f = tensor.empty() : tensor<3x4xf32>
  %1 = linalg.broadcast ins(%0 : tensor<4xf32>) outs(%f : tensor<3x4xf32>) dimensions = [0]
  %2 = linalg.add ins(%x, %1 : tensor<3x4xf32>, tensor<3x4xf32>) outs(%f : tensor<3x4xf32>) -> tensor<3x4xf32>
  return %2 : tensor<3x4xf32>
}

// -----

// Views of weights, state, and constants alone are left.
// CHECK-NOT:   __parameters
// CHECK-LABEL: func.func @nothing
func.func @nothing(%w: tensor<4xf32> {lemur.param = "w"}, %s: tensor<4xf32> {lemur.state = "s"}, %x: tensor<2x2xf32> {lemur.input = 0 : i64}) -> (tensor<2x2xf32>, tensor<4xf32>) {
  %v = tensor.expand_shape %w [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  %e = tensor.empty() : tensor<2x2xf32>
  %0 = linalg.add ins(%x, %v : tensor<2x2xf32>, tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32>
  %f = tensor.empty() : tensor<4xf32>
  %1 = linalg.exp ins(%s : tensor<4xf32>) outs(%f : tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<2x2xf32>, tensor<4xf32>
}
