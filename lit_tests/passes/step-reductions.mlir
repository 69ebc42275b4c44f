// RUN: lemurc opt -p step-reductions --split-input-file %s | filecheck %s

// CHECK-LABEL: module @whole
// CHECK:         [[ZERO:%.+]] = arith.constant 0.000000e+00 : f32
// CHECK:         [[FILL:%.+]] = linalg.fill ins([[ZERO]] : f32) outs({{.*}} : tensor<2xf32>)
// CHECK:         [[PART:%.+]] = linalg.generic {{.*}}iterator_types = ["parallel", "reduction", "reduction"]{{.*}} outs([[FILL]] : tensor<2xf32>)
// CHECK:           arith.mulf
// CHECK:           arith.addf
// CHECK:         linalg.generic {{.*}}iterator_types = ["reduction"]{{.*}} ins([[PART]] : tensor<2xf32>) outs(%arg2 : tensor<f32>)
// CHECK-NOT:       arith.mulf
// CHECK:           arith.addf
module @whole {
  func.func @run(%x: tensor<2x3x8xf32>, %y: tensor<2x8xf32>, %o: tensor<f32>) -> tensor<f32> {
    %s = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> ()>], iterator_types = ["reduction", "reduction", "reduction"]}
        ins(%x, %y : tensor<2x3x8xf32>, tensor<2x8xf32>) outs(%o : tensor<f32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %d = arith.mulf %a, %b : f32
      %e = arith.addf %d, %c : f32
      linalg.yield %e : f32
    } -> tensor<f32>
    return %s : tensor<f32>
  }
}

// -----

// Five dimensions take three steps, none transposes; sizes may be dynamic.
// CHECK-LABEL: module @steps
// CHECK:         arith.constant -1 : i32
// CHECK:         linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]
// CHECK-SAME:      outs({{.*}} : tensor<?x3x4x2xi32>)
// CHECK:         linalg.generic {{.*}}iterator_types = ["parallel", "reduction", "parallel", "reduction"]
// CHECK-SAME:      outs({{.*}} : tensor<?x4xi32>)
// CHECK:         linalg.generic {{.*}}iterator_types = ["reduction", "parallel"]
// CHECK-SAME:      outs(%arg1 : tensor<4xi32>)
module @steps {
  func.func @run(%x: tensor<?x3x4x2x5x6xi32>, %o: tensor<4xi32>) -> tensor<4xi32> {
    %s = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3, d4, d5)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d2)>], iterator_types = ["reduction", "reduction", "parallel", "reduction", "reduction", "reduction"]}
        ins(%x : tensor<?x3x4x2x5x6xi32>) outs(%o : tensor<4xi32>) {
    ^bb0(%a: i32, %c: i32):
      %e = arith.andi %a, %c : i32
      linalg.yield %e : i32
    } -> tensor<4xi32>
    return %s : tensor<4xi32>
  }
}

// -----

// Two dimensions are right as they are.
// CHECK-LABEL: module @two
// CHECK-COUNT-1: linalg.generic
// CHECK-NOT:     linalg.generic
module @two {
  func.func @run(%x: tensor<2x3x8xf32>, %o: tensor<3xf32>) -> tensor<3xf32> {
    %s = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d1)>], iterator_types = ["reduction", "parallel", "reduction"]}
        ins(%x : tensor<2x3x8xf32>) outs(%o : tensor<3xf32>) {
    ^bb0(%a: f32, %c: f32):
      %e = arith.addf %a, %c : f32
      linalg.yield %e : f32
    } -> tensor<3xf32>
    return %s : tensor<3xf32>
  }
}

// -----

// What has no neutral element that is known, or IREE refuses, reads memory of its own.
// CHECK-LABEL: module @other
// CHECK:         [[KEPT:%.+]] = util.optimization_barrier %arg0
// CHECK:         linalg.generic {{.*}} ins([[KEPT]] : tensor<2x3x8xf32>)
module @other {
  func.func @run(%x: tensor<2x3x8xf32>, %o: tensor<f32>) -> tensor<f32> {
    %s = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> ()>], iterator_types = ["reduction", "reduction", "reduction"]}
        ins(%x : tensor<2x3x8xf32>) outs(%o : tensor<f32>) {
    ^bb0(%a: f32, %c: f32):
      %e = arith.subf %c, %a : f32
      linalg.yield %e : f32
    } -> tensor<f32>
    return %s : tensor<f32>
  }
}

// -----

// CHECK-LABEL: module @product
// CHECK:         util.optimization_barrier %arg0
// CHECK:         linalg.generic {{.*}}["reduction", "reduction", "reduction"]
module @product {
  func.func @run(%x: tensor<2x3x8xbf16>, %o: tensor<bf16>) -> tensor<bf16> {
    %s = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> ()>], iterator_types = ["reduction", "reduction", "reduction"]}
        ins(%x : tensor<2x3x8xbf16>) outs(%o : tensor<bf16>) {
    ^bb0(%a: bf16, %c: bf16):
      %e = arith.mulf %c, %a : bf16
      linalg.yield %e : bf16
    } -> tensor<bf16>
    return %s : tensor<bf16>
  }
}
