// RUN: lemurc opt -p expand-remainders %s | filecheck %s

// CHECK-LABEL: func.func @of_f64
// CHECK:         ^bb0([[X:%.+]]: f64, [[Y:%.+]]: f64, {{.*}}):
// CHECK:           arith.bitcast [[X]] : f64 to i64
// CHECK:           arith.bitcast [[Y]] : f64 to i64
// CHECK:           scf.for
// CHECK:             arith.remui {{.*}} : i64
// CHECK:           [[R:%.+]] = arith.bitcast {{.*}} : i64 to f64
// CHECK-NEXT:      linalg.yield [[R]] : f64
#id = affine_map<(d0) -> (d0)>
func.func @of_f64(%x: tensor<8xf64>, %y: tensor<8xf64>) -> tensor<8xf64> {
  %e = tensor.empty() : tensor<8xf64>
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%x, %y : tensor<8xf64>, tensor<8xf64>) outs(%e : tensor<8xf64>) {
  ^bb0(%a: f64, %b: f64, %o: f64):
    %r = arith.remf %a, %b : f64
    linalg.yield %r : f64
  } -> tensor<8xf64>
  return %0 : tensor<8xf64>
}

// CHECK-LABEL: func.func @of_f32
// CHECK:         scf.for
// CHECK:           arith.remui {{.*}} : i32
// CHECK:         [[R:%.+]] = arith.bitcast {{.*}} : i32 to f32
// CHECK-NEXT:    return [[R]] : f32
func.func @of_f32(%x: f32, %y: f32) -> f32 {
  %r = arith.remf %x, %y : f32
  return %r : f32
}

// CHECK-LABEL: func.func @of_f16
// CHECK-SAME:      ([[X:%.+]]: f16, [[Y:%.+]]: f16)
// CHECK-DAG:     arith.extf [[X]] : f16 to f32
// CHECK-DAG:     arith.extf [[Y]] : f16 to f32
// CHECK:         arith.remui {{.*}} : i32
// CHECK:         [[R:%.+]] = arith.bitcast {{.*}} : i32 to f32
// CHECK-NEXT:    [[H:%.+]] = arith.truncf [[R]] : f32 to f16
// CHECK-NEXT:    return [[H]] : f16
func.func @of_f16(%x: f16, %y: f16) -> f16 {
  %r = arith.remf %x, %y : f16
  return %r : f16
}

// CHECK-LABEL: func.func @of_f128
// CHECK:         arith.remf {{.*}} : f128
func.func @of_f128(%x: f128, %y: f128) -> f128 {
  %r = arith.remf %x, %y : f128
  return %r : f128
}
