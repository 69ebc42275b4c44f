// RUN: lemurc opt -p outline-composites --split-input-file %s | filecheck %s

// CHECK-LABEL: func.func @linear
// CHECK-SAME:    ([[X:%.+]]: {{.*}}, [[W:%.+]]: {{.*}}, [[B:%.+]]: {{.*}})
// CHECK-NEXT:    [[Y:%.+]] = call @linear_0([[X]], [[W]], [[B]]) {no_inline}
// CHECK-NEXT:    return [[Y]]
// CHECK:       func.func private @linear_0
// CHECK-SAME:    lemur.composite = "linear"
// CHECK-SAME:    lemur.operands = ["input", "weight", "bias"]
// CHECK-SAME:    no_inline
// CHECK-NEXT:    torch.aten.linear
func.func @linear(%x: !torch.vtensor<[2,8],f32>, %w: !torch.vtensor<[4,8],f32>, %b: !torch.vtensor<[4],f32>) -> !torch.vtensor<[2,4],f32> {
  %0 = torch.aten.linear %x, %w, %b : !torch.vtensor<[2,8],f32>, !torch.vtensor<[4,8],f32>, !torch.vtensor<[4],f32> -> !torch.vtensor<[2,4],f32>
  return %0 : !torch.vtensor<[2,4],f32>
}

// -----

// A missing bias is a constant of the body, not an argument; addmm is a product with a bias.
// CHECK-LABEL: func.func @no_bias
// CHECK:         call @linear_0({{%.+}}, {{%.+}}) {no_inline}
// CHECK:         call @matmul_1({{%.+}}, {{%.+}}, {{%.+}}) {no_inline}
// CHECK:       func.func private @linear_0
// CHECK-SAME:    lemur.operands = ["input", "weight"]
// CHECK:         torch.constant.none
// CHECK:       func.func private @matmul_1
// CHECK-SAME:    lemur.operands = ["a", "b", "bias"]
func.func @no_bias(%x: !torch.vtensor<[2,8],f32>, %w: !torch.vtensor<[4,8],f32>, %u: !torch.vtensor<[4,3],f32>, %b: !torch.vtensor<[3],f32>) -> !torch.vtensor<[2,3],f32> {
  %none = torch.constant.none
  %one = torch.constant.int 1
  %0 = torch.aten.linear %x, %w, %none : !torch.vtensor<[2,8],f32>, !torch.vtensor<[4,8],f32>, !torch.none -> !torch.vtensor<[2,4],f32>
  %1 = torch.aten.addmm %b, %0, %u, %one, %one : !torch.vtensor<[3],f32>, !torch.vtensor<[2,4],f32>, !torch.vtensor<[4,3],f32>, !torch.int, !torch.int -> !torch.vtensor<[2,3],f32>
  return %1 : !torch.vtensor<[2,3],f32>
}

// -----

// One value in three roles stays three arguments.
// CHECK-LABEL: func.func @self_attention
// CHECK-SAME:    ([[X:%.+]]: {{.*}})
// CHECK:         call @attention_0([[X]], [[X]], [[X]]) {no_inline}
// CHECK:       func.func private @attention_0
// CHECK-SAME:    ([[Q:%.+]]: {{.*}}, [[K:%.+]]: {{.*}}, [[V:%.+]]: {{.*}})
// CHECK-SAME:    lemur.causal = true
// CHECK:         torch.aten.scaled_dot_product_attention [[Q]], [[K]], [[V]]
func.func @self_attention(%x: !torch.vtensor<[2,4,6,8],f32>) -> !torch.vtensor<[2,4,6,8],f32> {
  %none = torch.constant.none
  %zero = torch.constant.float 0.000000e+00
  %true = torch.constant.bool true
  %false = torch.constant.bool false
  %0 = torch.aten.scaled_dot_product_attention %x, %x, %x, %none, %zero, %true, %none, %false : !torch.vtensor<[2,4,6,8],f32>, !torch.vtensor<[2,4,6,8],f32>, !torch.vtensor<[2,4,6,8],f32>, !torch.none, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[2,4,6,8],f32>
  return %0 : !torch.vtensor<[2,4,6,8],f32>
}

// -----

// Half precision is widened inside.
// CHECK-LABEL: func.func @half
// CHECK:       func.func private @silu_0([[X:%.+]]: !torch.vtensor<[8],f16>) -> !torch.vtensor<[8],f16>
// CHECK:         [[WIDE:%.+]] = torch.prims.convert_element_type [[X]], {{.*}} -> !torch.vtensor<[8],f32>
// CHECK:         torch.aten.silu [[WIDE]]
// CHECK:         torch.prims.convert_element_type {{.*}} -> !torch.vtensor<[8],f16>
func.func @half(%x: !torch.vtensor<[8],f16>) -> !torch.vtensor<[8],f16> {
  %0 = torch.aten.silu %x : !torch.vtensor<[8],f16> -> !torch.vtensor<[8],f16>
  return %0 : !torch.vtensor<[8],f16>
}

// -----

// Dropout is random, a scaled addmm is no plain product, and relu is no composite.
// CHECK-LABEL: func.func @others
// CHECK-NOT:     call
// CHECK:         return
func.func @others(%x: !torch.vtensor<[2,4,6,8],f32>, %b: !torch.vtensor<[3],f32>, %u: !torch.vtensor<[3,3],f32>) -> (!torch.vtensor<[2,4,6,8],f32>, !torch.vtensor<[3,3],f32>) {
  %none = torch.constant.none
  %tenth = torch.constant.float 1.000000e-01
  %false = torch.constant.bool false
  %one = torch.constant.int 1
  %two = torch.constant.int 2
  %0 = torch.aten.scaled_dot_product_attention %x, %x, %x, %none, %tenth, %false, %none, %false : !torch.vtensor<[2,4,6,8],f32>, !torch.vtensor<[2,4,6,8],f32>, !torch.vtensor<[2,4,6,8],f32>, !torch.none, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[2,4,6,8],f32>
  %1 = torch.aten.relu %0 : !torch.vtensor<[2,4,6,8],f32> -> !torch.vtensor<[2,4,6,8],f32>
  %2 = torch.aten.addmm %b, %u, %u, %two, %one : !torch.vtensor<[3],f32>, !torch.vtensor<[3,3],f32>, !torch.vtensor<[3,3],f32>, !torch.int, !torch.int -> !torch.vtensor<[3,3],f32>
  return %1, %2 : !torch.vtensor<[2,4,6,8],f32>, !torch.vtensor<[3,3],f32>
}
