// RUN: lemurc opt -p keep-roundings %s | filecheck %s

// The second body reads what the first one rounds.
// CHECK-LABEL: func.func @widened
// CHECK:           arith.bitcast {{.*}} : f32 to i32
// CHECK:           [[R:%.+]] = arith.select
// CHECK-NEXT:      arith.truncf [[R]] : f32 to bf16
#id = affine_map<(d0) -> (d0)>
func.func @widened(%x: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xbf16>
  %f = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%e : tensor<8xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %t = arith.truncf %a : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<8xbf16>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%0 : tensor<8xbf16>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %t = arith.extf %a : bf16 to f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// CHECK-LABEL: func.func @returned
// CHECK-NOT:     arith.bitcast
func.func @returned(%x: f32) -> bf16 {
  %t = arith.truncf %x : f32 to bf16
  return %t : bf16
}

// CHECK-LABEL: func.func @from_integers
// CHECK:           arith.sitofp
// CHECK:           [[R:%.+]] = arith.select
// CHECK-NEXT:      arith.truncf [[R]] : f32 to bf16
func.func @from_integers(%x: tensor<8xi64>) -> tensor<8xbf16> {
  %e = tensor.empty() : tensor<8xbf16>
  %f = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<8xi64>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: i64, %o: f32):
    %t = arith.sitofp %a : i64 to f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%0 : tensor<8xf32>) outs(%e : tensor<8xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %t = arith.truncf %a : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<8xbf16>
  return %1 : tensor<8xbf16>
}

// Operands that torch-mlir promotes.
// CHECK-LABEL: func.func @promoted
// CHECK:           [[I:%.+]] = arith.sitofp {{%.+}} : i64 to f32
// CHECK:           arith.bitcast [[I]]
// CHECK:           arith.truncf {{%.+}} : f32 to bf16
// CHECK:           [[F:%.+]] = arith.truncf {{%.+}} : f64 to f32
// CHECK:           arith.truncf [[F]] : f32 to bf16
func.func @promoted(%x: i64, %y: f64) -> (bf16, bf16) {
  %0 = arith.sitofp %x : i64 to bf16
  %1 = arith.truncf %y : f64 to bf16
  return %0, %1 : bf16, bf16
}
