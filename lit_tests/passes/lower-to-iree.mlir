// RUN: lemurc opt -p lower-to-iree --split-input-file %s | filecheck %s

// A weight becomes a parameter named by position; a composite becomes its body.
// CHECK-LABEL: module @stage
// CHECK:         util.global private @p0 = #flow.parameter.named<"model"::"p0"> : tensor<4xf32>
// CHECK:         func.func @run([[X:%.+]]: tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:      [[W:%.+]] = util.global.load @p0 : tensor<4xf32>
// CHECK-NEXT:      [[Y:%.+]] = arith.mulf [[X]], [[W]] : tensor<4xf32>
// CHECK-NEXT:      return [[Y]]
// CHECK-NOT:     func.func private
// CHECK-NOT:     lemur
module @stage7 attributes {lemur.device = "cpu"} {
  func.func @run(%x: tensor<4xf32> {lemur.value = "input:0"},
                 %w: tensor<4xf32> {lemur.param = "scale"}) -> (tensor<4xf32> {lemur.value = "v0"}) {
    %0 = "func.call"(%x, %w) <{callee = @fused_0, no_inline}> {lemur.stage = 7 : i64}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @fused_0(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32>
      attributes {lemur.composite = "fused", no_inline} {
    %0 = arith.mulf %x, %w : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// A body with an op of tm_tensor stays a function, under a name that says nothing.
// CHECK-LABEL: module @stage
// CHECK:         call @c0(
// CHECK:         func.func private @c0(
// CHECK:           tm_tensor.sort
module @stage1 {
  func.func @run(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "func.call"(%x) <{callee = @sorted_9, no_inline}> : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @sorted_9(%x: tensor<4xf32>) -> tensor<4xf32>
      attributes {lemur.composite = "fused", no_inline} {
    %0 = tm_tensor.sort dimension(0) outs(%x : tensor<4xf32>) {
    ^bb0(%a: f32, %b: f32):
      %1 = arith.cmpf oge, %a, %b : f32
      tm_tensor.yield %1 : i1
    } -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// A stage without weights keeps all its arguments.
// CHECK-LABEL: module @stage
// CHECK-NOT:     util.global
// CHECK:         func.func @run([[X:%.+]]: tensor<4xf32>, [[Y:%.+]]: tensor<4xf32>)
// CHECK-NEXT:      [[Z:%.+]] = arith.addf [[X]], [[Y]]
module @stage2 {
  func.func @run(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
    %0 = arith.addf %x, %y : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// A barrier becomes one that IREE takes away when it has formed dispatches.
// CHECK-LABEL: module @stage
// CHECK:         [[Y:%.+]] = math.exp
// CHECK-NEXT:    [[HELD:%.+]] = iree_tensor_ext.compute_barrier.end [[Y]]
// CHECK-NEXT:    [[Z:%.+]] = math.tanh [[HELD]]
// CHECK-NEXT:    return [[Z]]
module @stage3 {
  func.func @run(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = math.exp %x : tensor<4xf32>
    %1 = "lemur.barrier"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = math.tanh %1 : tensor<4xf32>
    return %2 : tensor<4xf32>
  }
}
