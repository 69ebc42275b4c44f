// RUN: lemurc opt -p fill-constants --split-input-file %s | filecheck %s

#two = affine_map<(d0) -> (d0, 0)>
#id = affine_map<(d0) -> (d0)>

// CHECK-LABEL: func.func @index_and_update
// CHECK-SAME:    ([[A:%.+]]: tensor<1x1xi64>, [[B:%.+]]: tensor<1xf32>)
// CHECK-DAG:     [[Y:%.+]] = linalg.fill ins(%c3_i64 : i64) outs([[A]] : tensor<1x1xi64>)
// CHECK-DAG:     [[Z:%.+]] = linalg.fill ins(%cst : f32) outs([[B]] : tensor<1xf32>)
// CHECK:         return [[Y]], [[Z]]
func.func @index_and_update(%a: tensor<1x1xi64>, %b: tensor<1xf32>) -> (tensor<1x1xi64>, tensor<1xf32>) {
  %c3_i64 = arith.constant 3 : i64
  %cst = arith.constant 7.0 : f32
  %y:2 = linalg.generic {indexing_maps = [#two, #id], iterator_types = ["parallel"]} outs(%a, %b : tensor<1x1xi64>, tensor<1xf32>) {
  ^bb0(%p: i64, %q: f32):
    linalg.yield %c3_i64, %cst : i64, f32
  } -> (tensor<1x1xi64>, tensor<1xf32>)
  return %y#0, %y#1 : tensor<1x1xi64>, tensor<1xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// Does not apply: it yields what it was given.
// CHECK-LABEL: func.func @copy
// CHECK:         linalg.generic
func.func @copy(%a: tensor<4xf32>) -> tensor<4xf32> {
  %y = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%a : tensor<4xf32>) {
  ^bb0(%p: f32):
    linalg.yield %p : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}
