// RUN: lemurc opt -p finish-lowering %s | filecheck %s

// A call of a composite gets its mark back.
// CHECK-LABEL: func.func @call
// CHECK:         call @silu_0({{%.+}}) {no_inline}
func.func @call(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @silu_0(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @silu_0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {lemur.composite = "silu", no_inline} {
  return %x : tensor<4xf32>
}

// A cast that forgets a size is harmless.
// CHECK-LABEL: func.func @widening
// CHECK:         tensor.cast
func.func @widening(%x: tensor<4xf32>) -> tensor<?xf32> {
  %0 = tensor.cast %x : tensor<4xf32> to tensor<?xf32>
  return %0 : tensor<?xf32>
}
