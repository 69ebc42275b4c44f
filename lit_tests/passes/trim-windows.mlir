// RUN: lemurc opt -p trim-windows --split-input-file %s | filecheck %s

// CHECK-LABEL: func.func @convolution
// CHECK:         [[CUT:%.+]] = tensor.extract_slice %arg0[0, 0, 0, 0] [1, 2, 3, 5] [1, 1, 1, 1]
// CHECK:         linalg.conv_2d_nchw_fchw {{.*}}ins([[CUT]], %arg1 : tensor<1x2x3x5xf32>
func.func @convolution(%x: tensor<1x2x4x5xf32>, %w: tensor<3x2x3x3xf32>,
                       %y: tensor<1x3x1x2xf32>) -> tensor<1x3x1x2xf32> {
  %0 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}
      ins(%x, %w : tensor<1x2x4x5xf32>, tensor<3x2x3x3xf32>)
      outs(%y : tensor<1x3x1x2xf32>) -> tensor<1x3x1x2xf32>
  return %0 : tensor<1x3x1x2xf32>
}

// -----

// CHECK-LABEL: func.func @dynamic_batch
// CHECK:         [[SIZE:%.+]] = tensor.dim %arg0
// CHECK:         tensor.extract_slice %arg0[0, 0, 0] {{\[}}[[SIZE]], 2, 5] [1, 1, 1]
func.func @dynamic_batch(%x: tensor<?x2x6xf32>, %k: tensor<3xf32>,
                         %y: tensor<?x2x1xf32>) -> tensor<?x2x1xf32> {
  %0 = linalg.pooling_ncw_max {dilations = dense<2> : tensor<1xi64>, strides = dense<2> : tensor<1xi64>}
      ins(%x, %k : tensor<?x2x6xf32>, tensor<3xf32>)
      outs(%y : tensor<?x2x1xf32>) -> tensor<?x2x1xf32>
  return %0 : tensor<?x2x1xf32>
}

// -----

// A window that reaches the end, and several windows, stay.
// CHECK-LABEL: func.func @several
// CHECK-NOT:     tensor.extract_slice
func.func @several(%x: tensor<1x2x3x6xf32>, %k: tensor<3x3xf32>,
                   %y: tensor<1x2x1x2xf32>) -> tensor<1x2x1x2xf32> {
  %0 = linalg.pooling_nchw_sum {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}
      ins(%x, %k : tensor<1x2x3x6xf32>, tensor<3x3xf32>)
      outs(%y : tensor<1x2x1x2xf32>) -> tensor<1x2x1x2xf32>
  return %0 : tensor<1x2x1x2xf32>
}

// -----

// CHECK-LABEL: func.func @unfolded
// CHECK:         [[CUT:%.+]] = tensor.extract_slice %arg0[0, 0] [2, 3] [1, 1]
// CHECK:         linalg.generic {{.*}} ins([[CUT]] : tensor<2x3xf32>)
func.func @unfolded(%x: tensor<2x4xf32>) -> tensor<2x1x3xf32> {
  %e = tensor.empty() : tensor<2x1x3xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1 * 2 + d2)>,
                                        affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<2x4xf32>) outs(%e : tensor<2x1x3xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<2x1x3xf32>
  return %0 : tensor<2x1x3xf32>
}
