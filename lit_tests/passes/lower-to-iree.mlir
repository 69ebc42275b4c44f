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

// -----

// What is updated in place and was computed from nothing is computed for that alone.
// CHECK-LABEL: module @stage
// CHECK:         [[I:%.+]] = linalg.generic
// CHECK:           linalg.index
// CHECK-DAG:     [[TRUE:%.+]] = util.optimization_barrier {{%.+}} : i1
// CHECK-DAG:     [[ZERO:%.+]] = util.optimization_barrier {{%.+}} : i64
// CHECK:         [[OWN:%.+]] = linalg.generic {{.*}} ins([[I]] : tensor<?xi64>)
// CHECK-NEXT:    ^bb0([[IN:%.+]]: i64, {{%.+}}: i64):
// CHECK-NEXT:      [[V:%.+]] = arith.select [[TRUE]], [[IN]], [[ZERO]]
// CHECK-NEXT:      linalg.yield [[V]]
// CHECK:         [[UPDATED:%.+]] = tensor.insert_slice {{%.+}} into [[OWN]]
// CHECK:         return [[I]], [[UPDATED]]
#id = affine_map<(d0) -> (d0)>
module @stage3 {
  func.func @run(%x: tensor<2xi64>, %n: index) -> (tensor<?xi64>, tensor<?xi64>) {
    %e = tensor.empty(%n) : tensor<?xi64>
    %i = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%e : tensor<?xi64>) {
    ^bb0(%out: i64):
      %0 = linalg.index 0 : index
      %1 = arith.index_cast %0 : index to i64
      linalg.yield %1 : i64
    } -> tensor<?xi64>
    %u = tensor.insert_slice %x into %i[0] [2] [1] : tensor<2xi64> into tensor<?xi64>
    return %i, %u : tensor<?xi64>, tensor<?xi64>
  }
}

// -----

// Also where a function that stays one updates it.
// CHECK-LABEL: module @stage
// CHECK:         func.func private @c0(
// CHECK:           [[OWN:%.+]] = linalg.generic
// CHECK-NEXT:      ^bb0
// CHECK-NEXT:        arith.select
// CHECK:           tm_tensor.sort {{.*}}outs([[OWN]] : tensor<4xf32>)
#id = affine_map<(d0) -> (d0)>
module @stage4 {
  func.func @run() -> tensor<4xf32> {
    %e = tensor.empty() : tensor<4xf32>
    %i = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%e : tensor<4xf32>) {
    ^bb0(%out: f32):
      %0 = linalg.index 0 : index
      %1 = arith.index_cast %0 : index to i64
      %2 = arith.sitofp %1 : i64 to f32
      linalg.yield %2 : f32
    } -> tensor<4xf32>
    %0 = "func.call"(%i) <{callee = @sorted, no_inline}> : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @sorted(%x: tensor<4xf32>) -> tensor<4xf32>
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

// Does not apply: IREE fills again, and copies what was read.
// CHECK-LABEL: module @stage
// CHECK-NOT:     util.optimization_barrier
#id = affine_map<(d0) -> (d0)>
module @stage5 {
  func.func @run(%x: tensor<2xf32>, %y: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
    %c0 = arith.constant 0 : index
    %z = arith.constant 0.0 : f32
    %n = tensor.dim %y, %c0 : tensor<?xf32>
    %e = tensor.empty(%n) : tensor<?xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
    %d = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%y : tensor<?xf32>) outs(%e : tensor<?xf32>) {
    ^bb0(%in: f32, %out: f32):
      %0 = arith.addf %in, %in : f32
      linalg.yield %0 : f32
    } -> tensor<?xf32>
    %u = tensor.insert_slice %x into %f[0] [2] [1] : tensor<2xf32> into tensor<?xf32>
    %v = tensor.insert_slice %x into %d[0] [2] [1] : tensor<2xf32> into tensor<?xf32>
    return %f, %u, %v : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
  }
}

// -----

// A slice is copied before it is sorted.
// CHECK-LABEL: module @stage
// CHECK:         [[SLICE:%.+]] = tensor.extract_slice
// CHECK:         [[OWN:%.+]] = linalg.generic {{.*}} ins([[SLICE]] : tensor<?xf32>)
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      arith.select
// CHECK:         tm_tensor.sort {{.*}}outs([[OWN]] : tensor<?xf32>)
module @stage6 {
  func.func @run(%x: tensor<2x?xf32>, %n: index) -> tensor<?xf32> {
    %s = tensor.extract_slice %x[1, 0] [1, %n] [1, 1] : tensor<2x?xf32> to tensor<?xf32>
    %0 = tm_tensor.sort dimension(0) outs(%s : tensor<?xf32>) {
    ^bb0(%a: f32, %b: f32):
      %1 = arith.cmpf oge, %a, %b : f32
      tm_tensor.yield %1 : i1
    } -> tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}

// -----

// A slice that is looked up by index is copied, and says its size again behind the barrier.
// CHECK-LABEL: module @stage
// CHECK:         [[SLICE:%.+]] = tensor.extract_slice
// CHECK:         [[SIZE:%.+]] = tensor.dim [[SLICE]]
// CHECK:         [[KEPT:%.+]] = util.optimization_barrier [[SLICE]] : tensor<?x2xi64>
// CHECK:         [[TIED:%.+]] = flow.tensor.tie_shape [[KEPT]] : tensor<?x2xi64>{[[SIZE]]}
// CHECK:         tensor.extract [[TIED]]
#id = affine_map<(d0) -> (d0)>
module @stage6 {
  func.func @run(%x: tensor<?x8xi64>, %n: index) -> tensor<4xi64> {
    %c0 = arith.constant 0 : index
    %s = tensor.extract_slice %x[0, 0] [%n, 2] [1, 1] : tensor<?x8xi64> to tensor<?x2xi64>
    %e = tensor.empty() : tensor<4xi64>
    %r = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%e : tensor<4xi64>) {
    ^bb0(%out: i64):
      %i = linalg.index 0 : index
      %v = tensor.extract %s[%i, %c0] : tensor<?x2xi64>
      linalg.yield %v : i64
    } -> tensor<4xi64>
    return %r : tensor<4xi64>
  }
}
