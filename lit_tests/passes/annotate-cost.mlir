// RUN: lemurc opt -p annotate-cost --split-input-file %s | filecheck %s
// RUN: lemurc opt -p annotate-cost,annotate-cost --split-input-file %s | filecheck %s

// 2*4*8*8 for the product; x, w and the result are 128, 256 and 128 bytes. Free operations
// have neither cost nor name.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    call @linear_0
// CHECK-SAME:      lemur.cost = {bytes_read = 384 : i64, bytes_written = 128 : i64, flops = 512 : i64, live_bytes = 256 : i64}
// CHECK-SAME:      lemur.values = ["v0"]
// CHECK-NEXT:    tensor.empty() : tensor<4x8xf32>
// CHECK-NEXT:    linalg.add {lemur.cost = {bytes_read = 256 : i64, bytes_written = 128 : i64, flops = 32 : i64, live_bytes = 384 : i64}, lemur.values = ["v1"]}
func.func private @linear_0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> attributes {lemur.composite = "linear", lemur.module_path = "a", no_inline} {
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
  %e = tensor.empty() : tensor<4x8xf32>
  %1 = linalg.add ins(%0, %x : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// A name once given stays; new ones are not taken.
// CHECK-LABEL: func.func @named
// CHECK:         linalg.exp {{.*}}lemur.values = ["v8"]
// CHECK:         linalg.exp {{.*}}lemur.values = ["v7"]
func.func @named(%x: tensor<2xf32>) -> tensor<2xf32> {
  %e = tensor.empty() : tensor<2xf32>
  %0 = linalg.exp ins(%x : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %1 = linalg.exp {lemur.values = ["v7"]} ins(%0 : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// Dynamic sizes count at their declared maximum, followed through index arithmetic.
// CHECK-LABEL: func.func @dynamic
// CHECK-NOT:     lemur.cost_note
// CHECK:         linalg.exp {lemur.cost = {bytes_read = 1200 : i64, bytes_written = 1200 : i64, flops = 300 : i64
func.func @dynamic(%x: tensor<?x3xf32> {lemur.input = 0 : i64, lemur.dim_max = [100, 3]}) -> tensor<?x3xf32> {
  %c0 = arith.constant 0 : index
  %d = tensor.dim %x, %c0 : tensor<?x3xf32>
  %e = tensor.empty(%d) : tensor<?x3xf32>
  %0 = linalg.exp ins(%x : tensor<?x3xf32>) outs(%e : tensor<?x3xf32>) -> tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}

// -----

// CHECK-LABEL: func.func @unknown
// CHECK-SAME:    lemur.cost_note = "1 dynamic sizes without a known maximum were counted as 1"
func.func @unknown(%x: tensor<?x3xf32> {lemur.input = 0 : i64}) -> tensor<?x3xf32> {
  %c0 = arith.constant 0 : index
  %d = tensor.dim %x, %c0 : tensor<?x3xf32>
  %e = tensor.empty(%d) : tensor<?x3xf32>
  %0 = linalg.exp ins(%x : tensor<?x3xf32>) outs(%e : tensor<?x3xf32>) -> tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}
