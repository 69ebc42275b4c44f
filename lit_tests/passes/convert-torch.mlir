// RUN: lemurc opt %s -p convert-torch | filecheck %s
// Attention stays whole without a mask too: targets sum its softmax in f32.
// CHECK-LABEL: func.func @attention
// CHECK-NOT:     linalg.batch_matmul
// CHECK:         tm_tensor.attention ins(%{{.*}}, %{{.*}}, %{{.*}} : tensor<4x16x32xf16>
func.func @attention(%q: !torch.vtensor<[1,4,16,32],f16>, %k: !torch.vtensor<[1,4,16,32],f16>, %v: !torch.vtensor<[1,4,16,32],f16>) -> !torch.vtensor<[1,4,16,32],f16> {
  %none = torch.constant.none
  %zero = torch.constant.float 0.0
  %false = torch.constant.bool false
  %0 = torch.aten.scaled_dot_product_attention %q, %k, %v, %none, %zero, %false, %none, %false : !torch.vtensor<[1,4,16,32],f16>, !torch.vtensor<[1,4,16,32],f16>, !torch.vtensor<[1,4,16,32],f16>, !torch.none, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[1,4,16,32],f16>
  return %0 : !torch.vtensor<[1,4,16,32],f16>
}
