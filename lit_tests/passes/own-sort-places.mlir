// RUN: lemurc opt -p own-sort-places,own-sort-places --split-input-file %s | filecheck %s

#id = affine_map<(d0) -> (d0)>

// Each of two sorts that share places gets its own, and takes its offset off again.
// CHECK-LABEL: func.func @two_sorts
// CHECK:         arith.constant 4294967296 : i64
// CHECK:         [[A:%.+]]:2 = tm_tensor.sort
// CHECK:         arith.constant -4294967296 : i64
// CHECK:         arith.constant 8589934592 : i64
// CHECK:         tm_tensor.sort
// CHECK:         arith.constant -8589934592 : i64
// CHECK-NOT:     arith.constant 
// CHECK:         return
func.func @two_sorts(%x: tensor<8xf32>) -> (tensor<8xi64>, tensor<8xi64>) {
  %e = tensor.empty() : tensor<8xi64>
  %i = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%e : tensor<8xi64>) {
  ^bb0(%out: i64):
    %0 = linalg.index 0 : index
    %1 = arith.index_cast %0 : index to i64
    linalg.yield %1 : i64
  } -> tensor<8xi64>
  %s:2 = tm_tensor.sort dimension(0) outs(%x, %i : tensor<8xf32>, tensor<8xi64>) {
  ^bb0(%a: f32, %b: f32, %p: i64, %q: i64):
    %c = arith.cmpf ole, %a, %b : f32
    tm_tensor.yield %c : i1
  } -> tensor<8xf32>, tensor<8xi64>
  %t:2 = tm_tensor.sort dimension(0) outs(%x, %i : tensor<8xf32>, tensor<8xi64>) {
  ^bb0(%a: f32, %b: f32, %p: i64, %q: i64):
    %c = arith.cmpf oge, %a, %b : f32
    tm_tensor.yield %c : i1
  } -> tensor<8xf32>, tensor<8xi64>
  return %s#1, %t#1 : tensor<8xi64>, tensor<8xi64>
}

// -----

// Does not apply: what is carried along is no count.
// CHECK-LABEL: func.func @carried
// CHECK-NEXT:    tm_tensor.sort
func.func @carried(%x: tensor<8xf32>, %y: tensor<8xi64>) -> tensor<8xi64> {
  %s:2 = tm_tensor.sort dimension(0) outs(%x, %y : tensor<8xf32>, tensor<8xi64>) {
  ^bb0(%a: f32, %b: f32, %p: i64, %q: i64):
    %c = arith.cmpf ole, %a, %b : f32
    tm_tensor.yield %c : i1
  } -> tensor<8xf32>, tensor<8xi64>
  return %s#1 : tensor<8xi64>
}
