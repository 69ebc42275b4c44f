// RUN: lemurc opt -p bitcast-views,bitcast-views --split-input-file %s | filecheck %s

// CHECK-LABEL: func.func @bits
// CHECK:         [[X:%.+]] = torch_c.to_builtin_tensor %{{.+}} : !torch.vtensor<[?,3],f32> -> tensor<?x3xf32>
// CHECK:         [[N:%.+]] = tensor.dim [[X]], %{{.+}} : tensor<?x3xf32>
// CHECK:         [[O:%.+]] = tensor.empty([[N]]) : tensor<?x3xi32>
// CHECK:         linalg.generic {{.*}} ins([[X]] : tensor<?x3xf32>) outs([[O]] : tensor<?x3xi32>)
// CHECK:           arith.bitcast %{{.+}} : f32 to i32
// CHECK:         torch_c.from_builtin_tensor %{{.+}} : tensor<?x3xi32> -> !torch.vtensor<[?,3],si32>
func.func @bits(%x: !torch.vtensor<[?,3],f32>) -> !torch.vtensor<[?,3],si32> {
  %int = torch.constant.int 3
  %0 = torch.aten.view.dtype %x, %int : !torch.vtensor<[?,3],f32>, !torch.int -> !torch.vtensor<[?,3],si32>
  return %0 : !torch.vtensor<[?,3],si32>
}

// -----

// CHECK-LABEL: func.func @scalar
// CHECK:           arith.bitcast %{{.+}} : i16 to bf16
func.func @scalar(%x: !torch.vtensor<[],si16>) -> !torch.vtensor<[],bf16> {
  %int = torch.constant.int 15
  %0 = torch.aten.view.dtype %x, %int : !torch.vtensor<[],si16>, !torch.int -> !torch.vtensor<[],bf16>
  return %0 : !torch.vtensor<[],bf16>
}

// -----

// Another width is none of this pass.
// CHECK-LABEL: func.func @widths
// CHECK:         torch.aten.view.dtype
// CHECK-NOT:     linalg.generic
func.func @widths(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[8],si16> {
  %int = torch.constant.int 2
  %0 = torch.aten.view.dtype %x, %int : !torch.vtensor<[4],f32>, !torch.int -> !torch.vtensor<[8],si16>
  return %0 : !torch.vtensor<[8],si16>
}
