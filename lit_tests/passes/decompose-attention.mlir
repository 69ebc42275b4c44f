// RUN: lemurc opt -p decompose-attention --split-input-file %s | filecheck %s

// Scores, mask, row maximum, exponential, row sum, product with the values, quotient;
// halves are multiplied as they are and summed in f32.
// CHECK-LABEL: func.func private @attention_parts_0(
// CHECK-SAME:    tensor<2x4x8xf16>, {{.*}}tensor<2x6x8xf16>, {{.*}}tensor<2x6x8xf16>, {{.*}}tensor<2x4x6xi1>) -> tensor<2x4x8xf16>
// CHECK-DAG:     arith.constant 5.000000e-01 : f32
// CHECK-DAG:     [[LOWEST:%.+]] = arith.constant 0xFF800000 : f32
// CHECK:         arith.extf
// CHECK:         -> tensor<2x4x6xf32>
// CHECK:         arith.select {{.*}}, [[LOWEST]] : f32
// CHECK:         arith.maximumf
// CHECK:         arith.cmpf oeq, {{.*}}, [[LOWEST]] : f32
// CHECK:         math.exp
// CHECK:         arith.truncf
// CHECK:         iree_tensor_ext.compute_barrier.end
// CHECK:         arith.divf
// CHECK:       func.func @run
// CHECK:         call @attention_parts_0(
// CHECK-NOT:     tm_tensor.attention
module @stage0 {
  func.func @run(%q: tensor<2x4x8xf16>, %k: tensor<2x6x8xf16>, %v: tensor<2x6x8xf16>,
                 %m: tensor<2x4x6xi1>, %o: tensor<2x4x8xf16>) -> tensor<2x4x8xf16> {
    %0 = tm_tensor.attention {scale = 5.000000e-01 : f64}
      ins(%q, %k, %v, %m : tensor<2x4x8xf16>, tensor<2x6x8xf16>, tensor<2x6x8xf16>, tensor<2x4x6xi1>)
      outs(%o : tensor<2x4x8xf16>) -> tensor<2x4x8xf16>
    return %0 : tensor<2x4x8xf16>
  }
}

// -----

// Equal attentions share a function; without a scale it is 1 / sqrt(16).
// CHECK-COUNT-1: func.func private @attention_parts_
// CHECK:         arith.constant 2.500000e-01 : f32
// CHECK:         tensor.dim
// CHECK:       func.func @run
// CHECK:         [[Y:%.+]] = call @attention_parts_0({{.*}}) : {{.*}} -> tensor<?x?x16xf32>
// CHECK:         call @attention_parts_0([[Y]],
module @stage1 {
  func.func @run(%q: tensor<?x?x16xf32>, %k: tensor<?x?x16xf32>, %o: tensor<?x?x16xf32>)
      -> tensor<?x?x16xf32> {
    %0 = tm_tensor.attention
      ins(%q, %k, %k : tensor<?x?x16xf32>, tensor<?x?x16xf32>, tensor<?x?x16xf32>)
      outs(%o : tensor<?x?x16xf32>) -> tensor<?x?x16xf32>
    %1 = tm_tensor.attention
      ins(%0, %k, %k : tensor<?x?x16xf32>, tensor<?x?x16xf32>, tensor<?x?x16xf32>)
      outs(%o : tensor<?x?x16xf32>) -> tensor<?x?x16xf32>
    return %1 : tensor<?x?x16xf32>
  }
}

// -----

// The scale of a head of unknown width is computed at the call.
// CHECK-LABEL: module @stage2
// CHECK:         func.func private @attention_parts_0(%[[Q:[a-z0-9]+]]: tensor<1x4x?xf32>,
// CHECK:           %[[WIDTH:[a-z0-9_]+]] = tensor.dim %[[Q]], %{{.*}} : tensor<1x4x?xf32>
// CHECK-NEXT:      arith.index_cast %[[WIDTH]] : index to i32
// CHECK:           %[[ROOT:.*]] = math.sqrt
// CHECK-NEXT:      %[[SCALE:.*]] = arith.divf %{{.*}}, %[[ROOT]] : f32
// CHECK:           arith.mulf %{{.*}}, %[[SCALE]] : f32
// CHECK-NOT:     tm_tensor.attention
module @stage2 {
  func.func @run(%q: tensor<1x4x?xf32>, %o: tensor<1x4x?xf32>) -> tensor<1x4x?xf32> {
    %0 = tm_tensor.attention
      ins(%q, %q, %q : tensor<1x4x?xf32>, tensor<1x4x?xf32>, tensor<1x4x?xf32>)
      outs(%o : tensor<1x4x?xf32>) -> tensor<1x4x?xf32>
    return %0 : tensor<1x4x?xf32>
  }
}
