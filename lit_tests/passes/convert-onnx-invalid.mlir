// RUN: not lemurc opt -p convert-onnx %s 2>&1 | filecheck %s

// All that cannot be converted is said at once, and nothing else.
// CHECK:     operators, or attributes or types of them, that torch-mlir does not convert
// CHECK:     Fancy x2 at first, second
// CHECK-NOT: Relu
func.func @fancy(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32>
    attributes {torch.onnx_meta.opset_version = 18 : si64} {
  %0 = torch.operator "onnx.Fancy"(%x) : (!torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> loc("first")
  %1 = torch.operator "onnx.Relu"(%0) : (!torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> loc("relu")
  %2 = torch.operator "onnx.Fancy"(%1) : (!torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> loc("second")
  return %2 : !torch.vtensor<[2],f32>
}
