// RUN: lemurc opt -p normalize-torch --split-input-file %s | filecheck %s

// CHECK-LABEL: func.func @scatter
// CHECK:         [[DIM:%.+]] = torch.constant.int 1
// CHECK:         torch.aten.scatter_add {{%.+}}, [[DIM]],
func.func @scatter(%x: !torch.vtensor<[2,5],f32>, %i: !torch.vtensor<[2,3],si64>, %s: !torch.vtensor<[2,3],f32>) -> !torch.vtensor<[2,5],f32> {
  %last = torch.constant.int -1
  %0 = torch.aten.scatter_add %x, %last, %i, %s : !torch.vtensor<[2,5],f32>, !torch.int, !torch.vtensor<[2,3],si64>, !torch.vtensor<[2,3],f32> -> !torch.vtensor<[2,5],f32>
  return %0 : !torch.vtensor<[2,5],f32>
}

// -----

// CHECK-LABEL: func.func @mask
// CHECK:         torch.aten.unsqueeze {{.*}} -> !torch.vtensor<[1,6,6],i1>
// CHECK:         [[MASK:%.+]] = torch.aten.unsqueeze {{.*}} -> !torch.vtensor<[1,1,6,6],i1>
// CHECK:         torch.aten.scaled_dot_product_attention {{%.+}}, {{%.+}}, {{%.+}}, [[MASK]],
func.func @mask(%x: !torch.vtensor<[2,4,6,8],f32>, %m: !torch.vtensor<[6,6],i1>) -> !torch.vtensor<[2,4,6,8],f32> {
  %none = torch.constant.none
  %zero = torch.constant.float 0.000000e+00
  %false = torch.constant.bool false
  %0 = torch.aten.scaled_dot_product_attention %x, %x, %x, %m, %zero, %false, %none, %false : !torch.vtensor<[2,4,6,8],f32>, !torch.vtensor<[2,4,6,8],f32>, !torch.vtensor<[2,4,6,8],f32>, !torch.vtensor<[6,6],i1>, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[2,4,6,8],f32>
  return %0 : !torch.vtensor<[2,4,6,8],f32>
}

// -----

// CHECK-LABEL: func.func @no_batch
// CHECK:         [[Y:%.+]] = torch.aten.scaled_dot_product_attention {{.*}} -> !torch.vtensor<[1,6,8],f32>
// CHECK:         torch.aten.squeeze.dim [[Y]], {{.*}} -> !torch.vtensor<[6,8],f32>
func.func @no_batch(%x: !torch.vtensor<[6,8],f32>) -> !torch.vtensor<[6,8],f32> {
  %none = torch.constant.none
  %zero = torch.constant.float 0.000000e+00
  %false = torch.constant.bool false
  %0 = torch.aten.scaled_dot_product_attention %x, %x, %x, %none, %zero, %false, %none, %false : !torch.vtensor<[6,8],f32>, !torch.vtensor<[6,8],f32>, !torch.vtensor<[6,8],f32>, !torch.none, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[6,8],f32>
  return %0 : !torch.vtensor<[6,8],f32>
}

// -----

// CHECK-LABEL: func.func @narrow
// CHECK:         [[BY:%.+]] = torch.constant.int -8
// CHECK:         torch.aten.add.Scalar {{%.+}}, [[BY]],
func.func @narrow(%x: !torch.vtensor<[4],si8>) -> !torch.vtensor<[4],si8> {
  %eight = torch.constant.int 8
  %one = torch.constant.int 1
  %0 = torch.aten.sub.Scalar %x, %eight, %one : !torch.vtensor<[4],si8>, !torch.int, !torch.int -> !torch.vtensor<[4],si8>
  return %0 : !torch.vtensor<[4],si8>
}

// -----

// CHECK-LABEL: func.func @half_sum
// CHECK:         [[WIDE:%.+]] = torch.prims.convert_element_type {{.*}} -> !torch.vtensor<[4096],f32>
// CHECK:         [[SUM:%.+]] = torch.aten.sum [[WIDE]], {{.*}} -> !torch.vtensor<[],f32>
// CHECK:         torch.prims.convert_element_type [[SUM]], {{.*}} -> !torch.vtensor<[],bf16>
func.func @half_sum(%x: !torch.vtensor<[4096],bf16>) -> !torch.vtensor<[],bf16> {
  %none = torch.constant.none
  %0 = torch.aten.sum %x, %none : !torch.vtensor<[4096],bf16>, !torch.none -> !torch.vtensor<[],bf16>
  return %0 : !torch.vtensor<[],bf16>
}

// -----

// Wide integers and dimensions counted from the front stay as they are.
// CHECK-LABEL: func.func @others
// CHECK:         torch.aten.sub.Scalar
// CHECK:         torch.aten.index_select
func.func @others(%x: !torch.vtensor<[4],si64>, %i: !torch.vtensor<[2],si64>) -> !torch.vtensor<[2],si64> {
  %zero = torch.constant.int 0
  %eight = torch.constant.int 8
  %one = torch.constant.int 1
  %0 = torch.aten.sub.Scalar %x, %eight, %one : !torch.vtensor<[4],si64>, !torch.int, !torch.int -> !torch.vtensor<[4],si64>
  %1 = torch.aten.index_select %0, %zero, %i : !torch.vtensor<[4],si64>, !torch.int, !torch.vtensor<[2],si64> -> !torch.vtensor<[2],si64>
  return %1 : !torch.vtensor<[2],si64>
}

// -----

// What IREE computes less exactly than eager, in terms of what it computes well.
// CHECK-LABEL: func.func @tanh_and_negative_powers
// CHECK:         %[[SIZE:.*]] = torch.aten.abs %[[X:.*]] :
// CHECK:         torch.aten.expm1
// CHECK-NOT:     torch.aten.tanh
// CHECK:         %[[SQUARE:.*]] = torch.aten.pow.Tensor_Scalar
// CHECK:         torch.aten.reciprocal %[[SQUARE]]
func.func @tanh_and_negative_powers(%x: !torch.vtensor<[4],f32>) -> (!torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>) {
  %n = torch.constant.int -2
  %0 = torch.aten.tanh %x : !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32>
  %1 = torch.aten.pow.Tensor_Scalar %x, %n : !torch.vtensor<[4],f32>, !torch.int -> !torch.vtensor<[4],f32>
  return %0, %1 : !torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>
}

// -----

// A power that is not whole is NaN for what is below 0, and no infinity.
// CHECK-LABEL: func.func @broken_power
// CHECK:         %[[SIZE:.*]] = torch.aten.abs %[[X:.*]] :
// CHECK:         %[[POWER:.*]] = torch.aten.pow.Tensor_Scalar %[[SIZE]],
// CHECK:         %[[BELOW:.*]] = torch.aten.lt.Scalar %[[X]],
// CHECK:         %[[FINITE:.*]] = torch.aten.gt.Scalar %[[X]],
// CHECK:         %[[MISSING:.*]] = torch.aten.logical_and %[[BELOW]], %[[FINITE]]
// CHECK:         torch.aten.where.ScalarSelf %[[MISSING]], %{{.*}}, %[[POWER]]
func.func @broken_power(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
  %p = torch.constant.float 2.500000e-01
  %0 = torch.aten.pow.Tensor_Scalar %x, %p : !torch.vtensor<[4],f32>, !torch.float -> !torch.vtensor<[4],f32>
  return %0 : !torch.vtensor<[4],f32>
}

// -----

// An infinite power depends on whether the base is above 1.
// CHECK-LABEL: func.func @endless_power
// CHECK-NOT:     torch.aten.pow
// CHECK:         torch.aten.gt.Scalar
// CHECK:         torch.aten.lt.Scalar
// CHECK-NOT:     torch.aten.pow
func.func @endless_power(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
  %p = torch.constant.float 0x7FF0000000000000
  %0 = torch.aten.pow.Tensor_Scalar %x, %p : !torch.vtensor<[4],f32>, !torch.float -> !torch.vtensor<[4],f32>
  return %0 : !torch.vtensor<[4],f32>
}

// -----

// CHECK-LABEL: func.func @compares_with_a_float
// CHECK:         torch.constant.float 0.000000e+00
// CHECK:         torch.aten.lt.Scalar %{{.*}}, %float
func.func @compares_with_a_float(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],i1> {
  %n = torch.constant.int 0
  %0 = torch.aten.lt.Scalar %x, %n : !torch.vtensor<[4],f32>, !torch.int -> !torch.vtensor<[4],i1>
  return %0 : !torch.vtensor<[4],i1>
}
