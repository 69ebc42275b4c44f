// RUN: lemurc opt -p raise-patterns --split-input-file %s | filecheck %s

// CHECK-LABEL: func.func @silu
// CHECK-SAME:    ([[X:%.+]]: !torch.vtensor<[2,8],f32>)
// CHECK-NEXT:    [[Y:%.+]] = torch.aten.silu [[X]]
// CHECK-NEXT:    return [[Y]]
func.func @silu(%x: !torch.vtensor<[2,8],f32>) -> !torch.vtensor<[2,8],f32> {
  %0 = torch.aten.sigmoid %x : !torch.vtensor<[2,8],f32> -> !torch.vtensor<[2,8],f32>
  %1 = torch.aten.mul.Tensor %0, %x : !torch.vtensor<[2,8],f32>, !torch.vtensor<[2,8],f32> -> !torch.vtensor<[2,8],f32>
  return %1 : !torch.vtensor<[2,8],f32>
}

// -----

// A gate on another value is no SiLU.
// CHECK-LABEL: func.func @gate
// CHECK:         torch.aten.sigmoid
// CHECK:         torch.aten.mul.Tensor
// CHECK-NOT:     torch.aten.silu
func.func @gate(%x: !torch.vtensor<[2,8],f32>, %y: !torch.vtensor<[2,8],f32>) -> !torch.vtensor<[2,8],f32> {
  %0 = torch.aten.sigmoid %x : !torch.vtensor<[2,8],f32> -> !torch.vtensor<[2,8],f32>
  %1 = torch.aten.mul.Tensor %0, %y : !torch.vtensor<[2,8],f32>, !torch.vtensor<[2,8],f32> -> !torch.vtensor<[2,8],f32>
  return %1 : !torch.vtensor<[2,8],f32>
}

// -----

// CHECK-LABEL: func.func @gelu
// CHECK-SAME:    ([[X:%.+]]: !torch.vtensor<[4],f32>)
// CHECK:         [[TANH:%.+]] = torch.constant.str "tanh"
// CHECK:         [[Y:%.+]] = torch.aten.gelu [[X]], [[TANH]]
// CHECK-NEXT:    return [[Y]]
func.func @gelu(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
  %half = torch.constant.float 5.000000e-01
  %three = torch.constant.int 3
  %k = torch.constant.float 4.471500e-02
  %c = torch.constant.float 0.79788456080286541
  %one = torch.constant.int 1
  %0 = torch.aten.mul.Scalar %x, %half : !torch.vtensor<[4],f32>, !torch.float -> !torch.vtensor<[4],f32>
  %1 = torch.aten.pow.Tensor_Scalar %x, %three : !torch.vtensor<[4],f32>, !torch.int -> !torch.vtensor<[4],f32>
  %2 = torch.aten.mul.Scalar %1, %k : !torch.vtensor<[4],f32>, !torch.float -> !torch.vtensor<[4],f32>
  %3 = torch.aten.add.Tensor %x, %2, %one : !torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>, !torch.int -> !torch.vtensor<[4],f32>
  %4 = torch.aten.mul.Scalar %3, %c : !torch.vtensor<[4],f32>, !torch.float -> !torch.vtensor<[4],f32>
  %5 = torch.aten.tanh %4 : !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32>
  %6 = torch.aten.add.Scalar %5, %one, %one : !torch.vtensor<[4],f32>, !torch.int, !torch.int -> !torch.vtensor<[4],f32>
  %7 = torch.aten.mul.Tensor %0, %6 : !torch.vtensor<[4],f32>, !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32>
  return %7 : !torch.vtensor<[4],f32>
}

// -----

// Another constant inside the tanh: left as it is.
// CHECK-LABEL: func.func @nearly_gelu
// CHECK-NOT:     torch.aten.gelu
// CHECK:         return
func.func @nearly_gelu(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
  %half = torch.constant.float 5.000000e-01
  %c = torch.constant.float 8.000000e-01
  %one = torch.constant.int 1
  %0 = torch.aten.mul.Scalar %x, %half : !torch.vtensor<[4],f32>, !torch.float -> !torch.vtensor<[4],f32>
  %1 = torch.aten.mul.Scalar %x, %c : !torch.vtensor<[4],f32>, !torch.float -> !torch.vtensor<[4],f32>
  %2 = torch.aten.tanh %1 : !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32>
  %3 = torch.aten.add.Scalar %2, %one, %one : !torch.vtensor<[4],f32>, !torch.int, !torch.int -> !torch.vtensor<[4],f32>
  %4 = torch.aten.mul.Tensor %0, %3 : !torch.vtensor<[4],f32>, !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32>
  return %4 : !torch.vtensor<[4],f32>
}

// -----

// CHECK-LABEL: func.func @rms_norm
// CHECK-SAME:    ([[X:%.+]]: !torch.vtensor<[2,8],f32>, [[W:%.+]]: !torch.vtensor<[8],f32>)
// CHECK-NEXT:    [[Y:%.+]] = call @rms_norm_0([[X]], [[W]]) {no_inline}
// CHECK-NEXT:    return [[Y]]
// CHECK:       func.func private @rms_norm_0
// CHECK-SAME:    lemur.composite = "rms_norm", lemur.eps = 9.9999999999999995E-7 : f64
// CHECK-SAME:    lemur.operands = ["input", "weight"]
// CHECK:         torch.aten.pow.Tensor_Scalar
// CHECK:         torch.aten.mean.dim
// CHECK:         torch.aten.rsqrt
func.func @rms_norm(%x: !torch.vtensor<[2,8],f32>, %w: !torch.vtensor<[8],f32>) -> !torch.vtensor<[2,8],f32> {
  %two = torch.constant.int 2
  %last = torch.constant.int -1
  %one = torch.constant.int 1
  %true = torch.constant.bool true
  %none = torch.constant.none
  %eps = torch.constant.float 9.9999999999999995E-7
  %dims = torch.prim.ListConstruct %last : (!torch.int) -> !torch.list<int>
  %0 = torch.aten.pow.Tensor_Scalar %x, %two : !torch.vtensor<[2,8],f32>, !torch.int -> !torch.vtensor<[2,8],f32>
  %1 = torch.aten.mean.dim %0, %dims, %true, %none : !torch.vtensor<[2,8],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[2,1],f32>
  %2 = torch.aten.add.Scalar %1, %eps, %one : !torch.vtensor<[2,1],f32>, !torch.float, !torch.int -> !torch.vtensor<[2,1],f32>
  %3 = torch.aten.rsqrt %2 : !torch.vtensor<[2,1],f32> -> !torch.vtensor<[2,1],f32>
  %4 = torch.aten.mul.Tensor %x, %3 : !torch.vtensor<[2,8],f32>, !torch.vtensor<[2,1],f32> -> !torch.vtensor<[2,8],f32>
  %5 = torch.aten.mul.Tensor %w, %4 : !torch.vtensor<[8],f32>, !torch.vtensor<[2,8],f32> -> !torch.vtensor<[2,8],f32>
  return %5 : !torch.vtensor<[2,8],f32>
}

// -----

// The mean is over the first dimension: no RMS norm.
// CHECK-LABEL: func.func @other_mean
// CHECK-NOT:     call
// CHECK:         return
func.func @other_mean(%x: !torch.vtensor<[2,8],f32>) -> !torch.vtensor<[2,8],f32> {
  %two = torch.constant.int 2
  %first = torch.constant.int 0
  %one = torch.constant.int 1
  %true = torch.constant.bool true
  %none = torch.constant.none
  %eps = torch.constant.float 9.9999999999999995E-7
  %dims = torch.prim.ListConstruct %first : (!torch.int) -> !torch.list<int>
  %0 = torch.aten.pow.Tensor_Scalar %x, %two : !torch.vtensor<[2,8],f32>, !torch.int -> !torch.vtensor<[2,8],f32>
  %1 = torch.aten.mean.dim %0, %dims, %true, %none : !torch.vtensor<[2,8],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[1,8],f32>
  %2 = torch.aten.add.Scalar %1, %eps, %one : !torch.vtensor<[1,8],f32>, !torch.float, !torch.int -> !torch.vtensor<[1,8],f32>
  %3 = torch.aten.rsqrt %2 : !torch.vtensor<[1,8],f32> -> !torch.vtensor<[1,8],f32>
  %4 = torch.aten.mul.Tensor %x, %3 : !torch.vtensor<[2,8],f32>, !torch.vtensor<[1,8],f32> -> !torch.vtensor<[2,8],f32>
  return %4 : !torch.vtensor<[2,8],f32>
}

// -----

// CHECK-LABEL: func.func @attention
// CHECK-SAME:    ([[Q:%.+]]: {{.*}}, [[K:%.+]]: {{.*}}, [[V:%.+]]: {{.*}}, [[M:%.+]]: {{.*}})
// CHECK:         [[SCALE:%.+]] = torch.constant.float 2.500000e-01
// CHECK:         [[Y:%.+]] = torch.aten.scaled_dot_product_attention [[Q]], [[K]], [[V]], [[M]], {{.*}}, {{.*}}, [[SCALE]],
// CHECK-NEXT:    return [[Y]]
func.func @attention(%q: !torch.vtensor<[2,4,6,8],f32>, %k: !torch.vtensor<[2,4,6,8],f32>, %v: !torch.vtensor<[2,4,6,8],f32>, %m: !torch.vtensor<[2,1,6,6],f32>) -> !torch.vtensor<[2,4,6,8],f32> {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %i2 = torch.constant.int 2
  %i3 = torch.constant.int 3
  %last = torch.constant.int -1
  %none = torch.constant.none
  %four = torch.constant.float 4.000000e+00
  %order = torch.prim.ListConstruct %i0, %i1, %i3, %i2 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %0 = torch.aten.permute %k, %order : !torch.vtensor<[2,4,6,8],f32>, !torch.list<int> -> !torch.vtensor<[2,4,8,6],f32>
  %1 = torch.aten.matmul %q, %0 : !torch.vtensor<[2,4,6,8],f32>, !torch.vtensor<[2,4,8,6],f32> -> !torch.vtensor<[2,4,6,6],f32>
  %2 = torch.aten.div.Scalar %1, %four : !torch.vtensor<[2,4,6,6],f32>, !torch.float -> !torch.vtensor<[2,4,6,6],f32>
  %3 = torch.aten.add.Tensor %2, %m, %i1 : !torch.vtensor<[2,4,6,6],f32>, !torch.vtensor<[2,1,6,6],f32>, !torch.int -> !torch.vtensor<[2,4,6,6],f32>
  %4 = torch.aten.softmax.int %3, %last, %none : !torch.vtensor<[2,4,6,6],f32>, !torch.int, !torch.none -> !torch.vtensor<[2,4,6,6],f32>
  %5 = torch.aten.matmul %4, %v : !torch.vtensor<[2,4,6,6],f32>, !torch.vtensor<[2,4,6,8],f32> -> !torch.vtensor<[2,4,6,8],f32>
  return %5 : !torch.vtensor<[2,4,6,8],f32>
}

// -----

// The weights are a result too: attention must not be fused away.
// CHECK-LABEL: func.func @weights_wanted
// CHECK-NOT:     scaled_dot_product_attention
// CHECK:         return
func.func @weights_wanted(%q: !torch.vtensor<[2,6,8],f32>, %k: !torch.vtensor<[2,8,6],f32>, %v: !torch.vtensor<[2,6,8],f32>) -> (!torch.vtensor<[2,6,8],f32>, !torch.vtensor<[2,6,6],f32>) {
  %last = torch.constant.int -1
  %none = torch.constant.none
  %0 = torch.aten.matmul %q, %k : !torch.vtensor<[2,6,8],f32>, !torch.vtensor<[2,8,6],f32> -> !torch.vtensor<[2,6,6],f32>
  %1 = torch.aten.softmax.int %0, %last, %none : !torch.vtensor<[2,6,6],f32>, !torch.int, !torch.none -> !torch.vtensor<[2,6,6],f32>
  %2 = torch.aten.matmul %1, %v : !torch.vtensor<[2,6,6],f32>, !torch.vtensor<[2,6,8],f32> -> !torch.vtensor<[2,6,8],f32>
  return %2, %1 : !torch.vtensor<[2,6,8],f32>, !torch.vtensor<[2,6,6],f32>
}

// -----

// CHECK-LABEL: func.func @rope
// CHECK-SAME:    ([[X:%.+]]: !torch.vtensor<[1,2,5,8],f32>, [[COS:%.+]]: {{.*}}, [[SIN:%.+]]: {{.*}})
// CHECK-NEXT:    [[Y:%.+]] = call @rope_0([[X]], [[COS]], [[SIN]]) {no_inline}
// CHECK-NEXT:    return [[Y]]
// CHECK:       func.func private @rope_0
// CHECK-SAME:    lemur.composite = "rope"
// CHECK-SAME:    lemur.operands = ["input", "cos", "sin"]
func.func @rope(%x: !torch.vtensor<[1,2,5,8],f32>, %cos: !torch.vtensor<[1,1,5,8],f32>, %sin: !torch.vtensor<[1,1,5,8],f32>) -> !torch.vtensor<[1,2,5,8],f32> {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %i3 = torch.constant.int 3
  %i4 = torch.constant.int 4
  %last = torch.constant.int -1
  %end = torch.constant.int 9223372036854775807
  %0 = torch.aten.mul.Tensor %x, %cos : !torch.vtensor<[1,2,5,8],f32>, !torch.vtensor<[1,1,5,8],f32> -> !torch.vtensor<[1,2,5,8],f32>
  %1 = torch.aten.slice.Tensor %x, %i3, %i0, %i4, %i1 : !torch.vtensor<[1,2,5,8],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,2,5,4],f32>
  %2 = torch.aten.slice.Tensor %x, %i3, %i4, %end, %i1 : !torch.vtensor<[1,2,5,8],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,2,5,4],f32>
  %3 = torch.aten.neg %2 : !torch.vtensor<[1,2,5,4],f32> -> !torch.vtensor<[1,2,5,4],f32>
  %4 = torch.prim.ListConstruct %3, %1 : (!torch.vtensor<[1,2,5,4],f32>, !torch.vtensor<[1,2,5,4],f32>) -> !torch.list<vtensor>
  %5 = torch.aten.cat %4, %last : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[1,2,5,8],f32>
  %6 = torch.aten.mul.Tensor %5, %sin : !torch.vtensor<[1,2,5,8],f32>, !torch.vtensor<[1,1,5,8],f32> -> !torch.vtensor<[1,2,5,8],f32>
  %7 = torch.aten.add.Tensor %0, %6, %i1 : !torch.vtensor<[1,2,5,8],f32>, !torch.vtensor<[1,2,5,8],f32>, !torch.int -> !torch.vtensor<[1,2,5,8],f32>
  return %7 : !torch.vtensor<[1,2,5,8],f32>
}
