// RUN: lemurc opt -p expand-remainders %s | filecheck %s

// CHECK-LABEL: func.func @of_f64
// CHECK:         ^bb0([[X:%.+]]: f64, [[Y:%.+]]: f64, {{.*}}):
// CHECK:           math.absf [[X]] : f64
// CHECK:           math.absf [[Y]] : f64
// CHECK:           arith.maxui {{.*}} : i64
// CHECK:           scf.for
// CHECK:             arith.remui {{.*}} : i64
// CHECK:           math.copysign {{.*}}, [[X]] : f64
// CHECK:           [[R:%.+]] = arith.select
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
// CHECK:         arith.remf {{.*}} : f32
func.func @of_f32(%x: f32, %y: f32) -> f32 {
  %r = arith.remf %x, %y : f32
  return %r : f32
}
