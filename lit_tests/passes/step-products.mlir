// RUN: lemurc opt -p step-products --split-input-file %s | filecheck %s

// One factor lacks a dimension: the last is summed first.
// CHECK-LABEL: module @product
// CHECK:         [[MUL:%.+]] = linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]
// CHECK:         [[PART:%.+]] = linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]{{.*}} ins([[MUL]] : tensor<8x16xf32>) outs({{.*}} : tensor<8xf32>)
// CHECK:         linalg.generic {{.*}}iterator_types = ["reduction"]{{.*}} ins([[PART]] : tensor<8xf32>) outs(%arg2 : tensor<f32>)
module @product {
  func.func @run(%w: tensor<16xf32>, %x: tensor<8x16xf32>, %o: tensor<f32>) -> tensor<f32> {
    %e = tensor.empty() : tensor<8x16xf32>
    %m = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
        ins(%w, %x : tensor<16xf32>, tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %d = arith.mulf %a, %b : f32
      linalg.yield %d : f32
    } -> tensor<8x16xf32>
    %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ()>], iterator_types = ["reduction", "reduction"]}
        ins(%m : tensor<8x16xf32>) outs(%o : tensor<f32>) {
    ^bb0(%a: f32, %c: f32):
      %d = arith.addf %a, %c : f32
      linalg.yield %d : f32
    } -> tensor<f32>
    return %s : tensor<f32>
  }
}

// -----

// Both factors have all dimensions.
// CHECK-LABEL: module @whole
// CHECK:         linalg.generic {{.*}}iterator_types = ["reduction", "reduction"]
module @whole {
  func.func @run(%w: tensor<8x16xf32>, %x: tensor<8x16xf32>, %o: tensor<f32>) -> tensor<f32> {
    %e = tensor.empty() : tensor<8x16xf32>
    %m = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
        ins(%w, %x : tensor<8x16xf32>, tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %d = arith.mulf %a, %b : f32
      linalg.yield %d : f32
    } -> tensor<8x16xf32>
    %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ()>], iterator_types = ["reduction", "reduction"]}
        ins(%m : tensor<8x16xf32>) outs(%o : tensor<f32>) {
    ^bb0(%a: f32, %c: f32):
      %d = arith.addf %a, %c : f32
      linalg.yield %d : f32
    } -> tensor<f32>
    return %s : tensor<f32>
  }
}

// -----

// A sum is no product, whatever it lacks.
// CHECK-LABEL: module @sum
// CHECK:         linalg.generic {{.*}}iterator_types = ["reduction", "reduction"]
module @sum {
  func.func @run(%w: tensor<16xf32>, %x: tensor<8x16xf32>, %o: tensor<f32>) -> tensor<f32> {
    %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ()>], iterator_types = ["reduction", "reduction"]}
        ins(%w, %x : tensor<16xf32>, tensor<8x16xf32>) outs(%o : tensor<f32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %d = arith.subf %a, %b : f32
      %f = arith.addf %d, %c : f32
      linalg.yield %f : f32
    } -> tensor<f32>
    return %s : tensor<f32>
  }
}
