// RUN: lemurc opt -p sort-nan-last,sort-nan-last --split-input-file %s | filecheck %s

// CHECK-LABEL: func.func @ascending
// CHECK:         ^bb0([[A:%.+]]: f32, [[B:%.+]]: f32):
// CHECK-NEXT:      [[C:%.+]] = arith.cmpf ole, [[A]], [[B]] : f32
// CHECK-NEXT:      [[N:%.+]] = arith.cmpf uno, [[B]], [[B]] : f32
// CHECK-NEXT:      [[E:%.+]] = arith.ori [[C]], [[N]] : i1
// CHECK-NEXT:      tm_tensor.yield [[E]]
func.func @ascending(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = tm_tensor.sort dimension(0) outs(%x : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf ole, %a, %b : f32
    tm_tensor.yield %c : i1
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// CHECK-LABEL: func.func @descending
// CHECK:         ^bb0([[A:%.+]]: f32, {{.*}}):
// CHECK:           arith.cmpf oge
// CHECK-NEXT:      arith.cmpf uno, [[A]], [[A]] : f32
func.func @descending(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = tm_tensor.sort dimension(0) outs(%x : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf oge, %a, %b : f32
    tm_tensor.yield %c : i1
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// Does not apply: integers are all ordered.
// CHECK-LABEL: func.func @integers
// CHECK:         arith.cmpi sle
// CHECK-NEXT:    tm_tensor.yield
func.func @integers(%x: tensor<8xi32>) -> tensor<8xi32> {
  %0 = tm_tensor.sort dimension(0) outs(%x : tensor<8xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.cmpi sle, %a, %b : i32
    tm_tensor.yield %c : i1
  } -> tensor<8xi32>
  return %0 : tensor<8xi32>
}
