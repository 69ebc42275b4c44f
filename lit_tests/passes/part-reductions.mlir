// RUN: lemurc opt -p part-reductions --split-input-file %s | filecheck %s

// CHECK-LABEL: module @converted
// CHECK:         [[SUM:%.+]] = linalg.generic {{.*}}"parallel", "reduction"
// CHECK:         [[KEPT:%.+]] = util.optimization_barrier [[SUM]] : tensor<4xf64>
// CHECK:         linalg.generic {{.*}} ins([[KEPT]] : tensor<4xf64>)
module @converted {
  func.func @run(%x: tensor<4x8xf64>, %i: tensor<4xf64>, %o: tensor<4xf32>) -> tensor<4xf32> {
    %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
        ins(%x : tensor<4x8xf64>) outs(%i : tensor<4xf64>) {
    ^bb0(%a: f64, %b: f64):
      %c = arith.addf %a, %b : f64
      linalg.yield %c : f64
    } -> tensor<4xf64>
    %t = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
        ins(%s : tensor<4xf64>) outs(%o : tensor<4xf32>) {
    ^bb0(%a: f64, %b: f32):
      %c = arith.truncf %a : f64 to f32
      linalg.yield %c : f32
    } -> tensor<4xf32>
    return %t : tensor<4xf32>
  }
}

// -----

// Arithmetic of the same type is done in the memory of the result.
// CHECK-LABEL: module @same_type
// CHECK-NOT:     util.optimization_barrier
module @same_type {
  func.func @run(%x: tensor<4x8xf32>, %i: tensor<4xf32>) -> tensor<4xf32> {
    %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
        ins(%x : tensor<4x8xf32>) outs(%i : tensor<4xf32>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
    } -> tensor<4xf32>
    %t = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
        ins(%s : tensor<4xf32>) outs(%i : tensor<4xf32>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.negf %a : f32
      linalg.yield %c : f32
    } -> tensor<4xf32>
    return %t : tensor<4xf32>
  }
}

// -----

// A widening that several operations read is stored once.
// CHECK-LABEL: module @widened
// CHECK:         [[WIDE:%.+]] = linalg.generic {{.*}}"parallel", "parallel"
// CHECK:         [[KEPT:%.+]] = util.optimization_barrier [[WIDE]] : tensor<4x8xf64>
// CHECK:         return [[KEPT]], [[KEPT]]
module @widened {
  func.func @run(%x: tensor<4x8xf32>, %o: tensor<4x8xf64>) -> (tensor<4x8xf64>, tensor<4x8xf64>) {
    %w = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
        ins(%x : tensor<4x8xf32>) outs(%o : tensor<4x8xf64>) {
    ^bb0(%a: f32, %b: f64):
      %c = arith.extf %a : f32 to f64
      linalg.yield %c : f64
    } -> tensor<4x8xf64>
    return %w, %w : tensor<4x8xf64>, tensor<4x8xf64>
  }
}

// -----

// Bytes that are multiplied are widened in memory of their own; f16 is not.
// CHECK-LABEL: module @bytes
// CHECK:         [[WIDE:%.+]] = linalg.generic
// CHECK:           arith.sitofp
// CHECK:         [[KEPT:%.+]] = util.optimization_barrier [[WIDE]] : tensor<4x8xf32>
// CHECK:         linalg.transpose ins([[KEPT]]
// CHECK-NOT:     util.optimization_barrier
module @bytes {
  func.func @run(%x: tensor<4x8xi8>, %y: tensor<4x8xf16>, %o: tensor<4x8xf32>, %t: tensor<8x4xf32>, %i: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %w = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
        ins(%x : tensor<4x8xi8>) outs(%o : tensor<4x8xf32>) {
    ^bb0(%a: i8, %b: f32):
      %c = arith.sitofp %a : i8 to f32
      linalg.yield %c : f32
    } -> tensor<4x8xf32>
    %z = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
        ins(%y : tensor<4x8xf16>) outs(%o : tensor<4x8xf32>) {
    ^bb0(%a: f16, %b: f32):
      %c = arith.extf %a : f16 to f32
      linalg.yield %c : f32
    } -> tensor<4x8xf32>
    %v = linalg.transpose ins(%w : tensor<4x8xf32>) outs(%t : tensor<8x4xf32>) permutation = [1, 0]
    %p = linalg.matmul ins(%z, %v : tensor<4x8xf32>, tensor<8x4xf32>) outs(%i : tensor<4x4xf32>) -> tensor<4x4xf32>
    return %p : tensor<4x4xf32>
  }
}
