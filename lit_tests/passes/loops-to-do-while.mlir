// RUN: lemurc opt -p loops-to-do-while --split-input-file %s | filecheck %s

// The condition is carried: it is tested after the step that computes it.
// CHECK-LABEL: module @carried
// CHECK:         [[OUT:%.+]]:2 = scf.if %arg0 -> (tensor<i64>, tensor<4xf32>) {
// CHECK:           [[LOOP:%.+]]:2 = scf.while ([[I:%.+]] = %arg1, [[X:%.+]] = %arg2)
// CHECK:             [[NEXT:%.+]] = arith.addf [[X]], [[X]]
// CHECK:             [[TRUE:%.+]] = tensor.extract
// CHECK:             scf.condition([[TRUE]]) [[I]], [[NEXT]]
// CHECK:           } do {
// CHECK:             scf.yield
// CHECK:           scf.yield [[LOOP]]#0, [[LOOP]]#1
// CHECK:         } else {
// CHECK:           scf.yield %arg1, %arg2
// CHECK:         return [[OUT]]#1
module @carried {
  func.func @run(%c: i1, %i: tensor<i64>, %x: tensor<4xf32>, %t: tensor<i1>) -> tensor<4xf32> {
    %r:2 = scf.while (%d = %c, %j = %i, %y = %x) : (i1, tensor<i64>, tensor<4xf32>) -> (tensor<i64>, tensor<4xf32>) {
      scf.condition(%d) %j, %y : tensor<i64>, tensor<4xf32>
    } do {
    ^bb0(%j: tensor<i64>, %y: tensor<4xf32>):
      %z = arith.addf %y, %y : tensor<4xf32>
      %e = tensor.extract %t[] : tensor<i1>
      scf.yield %e, %j, %z : i1, tensor<i64>, tensor<4xf32>
    }
    return %r#1 : tensor<4xf32>
  }
}

// -----

// Computed where it is tested: as it was.
// CHECK-LABEL: module @tested
// CHECK-NOT:     scf.if
// CHECK:         scf.while
// CHECK:           tensor.extract
// CHECK:           scf.condition
module @tested {
  func.func @run(%x: tensor<4xf32>, %t: tensor<i1>) -> tensor<4xf32> {
    %r = scf.while (%y = %x) : (tensor<4xf32>) -> tensor<4xf32> {
      %e = tensor.extract %t[] : tensor<i1>
      scf.condition(%e) %y : tensor<4xf32>
    } do {
    ^bb0(%y: tensor<4xf32>):
      %z = arith.addf %y, %y : tensor<4xf32>
      scf.yield %z : tensor<4xf32>
    }
    return %r : tensor<4xf32>
  }
}
