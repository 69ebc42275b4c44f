// RUN: lemurc opt -p convert-onnx %s | filecheck %s

// Linear layers and softmax stay whole: the passes that follow know them by name.
// CHECK-LABEL: func.func @whole
// CHECK:       [[Y:%.+]] = torch.aten.matmul
// CHECK:       torch.aten.softmax.int [[Y]]
// CHECK-NOT:   torch.operator
func.func @whole(%x: !torch.vtensor<[2,4],f32>, %w: !torch.vtensor<[4,3],f32>)
    -> !torch.vtensor<[2,3],f32> attributes {torch.onnx_meta.opset_version = 18 : si64} {
  %0 = torch.operator "onnx.MatMul"(%x, %w)
      : (!torch.vtensor<[2,4],f32>, !torch.vtensor<[4,3],f32>) -> !torch.vtensor<[2,3],f32>
  %1 = torch.operator "onnx.Softmax"(%0) {torch.onnx.axis = 1 : si64}
      : (!torch.vtensor<[2,3],f32>) -> !torch.vtensor<[2,3],f32>
  return %1 : !torch.vtensor<[2,3],f32>
}
