// RUN: lemurc opt -p "annotate-cost,micro-batch{count=4}" --split-input-file %s | filecheck %s

// A part of the result needs the same part of the input, and all of the weight.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    ([[X:%[a-z0-9]+]]: tensor<2x8xf32> {lemur.input = 0 : i64}, [[W:%[a-z0-9]+]]: tensor<16x8xf32> {lemur.param = "w"})
// CHECK-SAME:    -> (tensor<2x16xf32> {lemur.output = 0 : i64})
// CHECK-SAME:    lemur.micro_batches = {count = 4 : i64, inputs = [0], outputs = [0]}
// CHECK:         [[Y:%[a-z0-9]+]] = call @linear_0_0x2([[X]], [[W]])
// CHECK-SAME:      lemur.cost = {{{.*}}flops = 512 : i64
// CHECK-SAME:      lemur.values = ["v0"]
// CHECK-NEXT:    return [[Y]]
// CHECK:       func.func private @linear_0_0x2
// CHECK:         linalg.matmul {{.*}} -> tensor<2x16xf32>
func.func private @linear_0(%x: tensor<8x8xf32>, %w: tensor<16x8xf32>) -> tensor<8x16xf32> attributes {lemur.composite = "linear", lemur.module_path = "mid", no_inline} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %t = linalg.transpose ins(%w : tensor<16x8xf32>) outs(%e : tensor<8x16xf32>) permutation = [1, 0]
  %o = tensor.empty() : tensor<8x16xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<8x16xf32>) -> tensor<8x16xf32>
  %r = linalg.matmul ins(%x, %t : tensor<8x8xf32>, tensor<8x16xf32>) outs(%f : tensor<8x16xf32>) -> tensor<8x16xf32>
  return %r : tensor<8x16xf32>
}
func.func @main(%x: tensor<8x8xf32> {lemur.input = 0 : i64}, %w: tensor<16x8xf32> {lemur.param = "w"}) -> (tensor<8x16xf32> {lemur.output = 0 : i64}) {
  %0 = call @linear_0(%x, %w) {no_inline} : (tensor<8x8xf32>, tensor<16x8xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}

// -----

// Rows of [tokens * batch] are of the batch too; what has no batch is given whole.
// CHECK-LABEL: func.func @reshaped
// CHECK-SAME:    tensor<2x3x4xf32> {lemur.input = 0 : i64}, {{%[a-z0-9]+}}: tensor<4xf32>
// CHECK-SAME:    inputs = [0, -1], outputs = [0]
// CHECK:         linalg.transpose {{.*}} : tensor<3x2x4xf32>)
// CHECK:         tensor.collapse_shape {{.*}} into tensor<6x4xf32>
// CHECK:         tensor.expand_shape {{.*}} output_shape [3, 2, 4]
func.func @reshaped(%x: tensor<8x3x4xf32> {lemur.input = 0 : i64}, %y: tensor<4xf32> {lemur.input = 1 : i64}) -> (tensor<8x3x4xf32> {lemur.output = 0 : i64}) {
  %e = tensor.empty() : tensor<3x8x4xf32>
  %t = linalg.transpose ins(%x : tensor<8x3x4xf32>) outs(%e : tensor<3x8x4xf32>) permutation = [1, 0, 2]
  %c = tensor.collapse_shape %t [[0, 1], [2]] : tensor<3x8x4xf32> into tensor<24x4xf32>
  %o = tensor.empty() : tensor<24x4xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%c, %y : tensor<24x4xf32>, tensor<4xf32>) outs(%o : tensor<24x4xf32>) {
  ^bb0(%p: f32, %q: f32, %u: f32):
    %v = arith.addf %p, %q : f32
    linalg.yield %v : f32
  } -> tensor<24x4xf32>
  %x3 = tensor.expand_shape %s [[0, 1], [2]] output_shape [3, 8, 4] : tensor<24x4xf32> into tensor<3x8x4xf32>
  %f = tensor.empty() : tensor<8x3x4xf32>
  %r = linalg.transpose ins(%x3 : tensor<3x8x4xf32>) outs(%f : tensor<8x3x4xf32>) permutation = [1, 0, 2]
  return %r : tensor<8x3x4xf32>
}

// -----

// What is computed of the whole batch.
// CHECK-LABEL: func.func @summed
// CHECK-SAME:    tensor<8x4xf32>
// CHECK-SAME:    lemur.whole = "an input is needed whole"
// CHECK-NOT:     lemur.micro_batches
func.func @summed(%x: tensor<8x4xf32> {lemur.input = 0 : i64}) -> (tensor<8x4xf32> {lemur.output = 0 : i64}) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.reduce {arith.addf} ins(%x : tensor<8x4xf32>) outs(%f : tensor<4xf32>) dimensions = [0]
  %o = tensor.empty() : tensor<8x4xf32>
  %b = linalg.broadcast ins(%s : tensor<4xf32>) outs(%o : tensor<8x4xf32>) dimensions = [0]
  %r = linalg.sub ins(%x, %b : tensor<8x4xf32>, tensor<8x4xf32>) outs(%o : tensor<8x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// -----

// What knows its place in the batch.
// CHECK-LABEL: func.func @placed
// CHECK-SAME:    lemur.whole = "elementwise is not known to keep the parts of a batch apart"
func.func @placed(%x: tensor<8xi64> {lemur.input = 0 : i64}) -> (tensor<8xi64> {lemur.output = 0 : i64}) {
  %o = tensor.empty() : tensor<8xi64>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<8xi64>) outs(%o : tensor<8xi64>) {
  ^bb0(%p: i64, %u: i64):
    %i = linalg.index 0 : index
    %n = arith.index_cast %i : index to i64
    %v = arith.addi %p, %n : i64
    linalg.yield %v : i64
  } -> tensor<8xi64>
  return %r : tensor<8xi64>
}

// -----

// CHECK-LABEL: func.func @odd
// CHECK-SAME:    lemur.whole = "4 parts of a batch of 6 are not equal"
func.func @odd(%x: tensor<6xf32> {lemur.input = 0 : i64}) -> (tensor<6xf32> {lemur.output = 0 : i64}) {
  %o = tensor.empty() : tensor<6xf32>
  %r = linalg.exp ins(%x : tensor<6xf32>) outs(%o : tensor<6xf32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

// CHECK-LABEL: func.func @dynamic
// CHECK-SAME:    lemur.whole = "the size of its batch is known at the call only"
func.func @dynamic(%x: tensor<?xf32> {lemur.input = 0 : i64}) -> (tensor<?xf32> {lemur.output = 0 : i64}) {
  %c0 = arith.constant 0 : index
  %d = tensor.dim %x, %c0 : tensor<?xf32>
  %o = tensor.empty(%d) : tensor<?xf32>
  %r = linalg.exp ins(%x : tensor<?xf32>) outs(%o : tensor<?xf32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// -----

// CHECK-LABEL: func.func @state
// CHECK-SAME:    lemur.whole = "it keeps state, changes its arguments or checks values"
func.func @state(%s: tensor<8xf32> {lemur.state = "s"}) -> (tensor<8xf32> {lemur.state_update = "s"}) {
  %o = tensor.empty() : tensor<8xf32>
  %r = linalg.exp ins(%s : tensor<8xf32>) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}
