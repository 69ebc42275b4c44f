// RUN: lemurc opt -p guard-attention --split-input-file %s | filecheck %s

// A row is kept where some entry of its mask is not minus infinity.
// CHECK-LABEL: func.func private @attention_guard_0(
// CHECK:         arith.cmpf une
// CHECK:         arith.ori
// CHECK:         arith.select
// CHECK:       func.func @run
// CHECK:         [[Y:%.+]] = tm_tensor.attention
// CHECK:         [[Z:%.+]] = call @attention_guard_0([[Y]], {{.*}})
// CHECK:         return [[Z]]
module @stage0 {
  func.func @run(%q: tensor<2x4x8xf32>, %k: tensor<2x6x8xf32>, %m: tensor<2x4x6xf32>,
                 %o: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
    %0 = tm_tensor.attention
      ins(%q, %k, %k, %m : tensor<2x4x8xf32>, tensor<2x6x8xf32>, tensor<2x6x8xf32>, tensor<2x4x6xf32>)
      outs(%o : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    return %0 : tensor<2x4x8xf32>
  }
}

// -----

// Without a mask every key is seen.
// CHECK-LABEL: module @stage1
// CHECK-NOT:     attention_guard
module @stage1 {
  func.func @run(%q: tensor<2x4x8xf32>, %o: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
    %0 = tm_tensor.attention ins(%q, %q, %q : tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x4x8xf32>)
      outs(%o : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    return %0 : tensor<2x4x8xf32>
  }
}
