// RUN: lemurc opt -p outline-host-ops --split-input-file %s | filecheck %s
// RUN: lemurc opt -p 'outline-host-ops,convert-torch,func.func(canonicalize),finish-lowering' --split-input-file %s | filecheck %s --check-prefix=LINALG

// Constants and places of tensors are recorded; a number of the call becomes a tensor.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    ([[X:%.+]]: !torch.vtensor<[2,?],f32>, [[B:%.+]]: !torch.vtensor<[2,?],ui8>)
// CHECK:         [[N:%.+]] = torch.aten.size.int [[X]]
// CHECK:         [[T:%.+]] = torch.prim.NumToTensor.Scalar [[N]] : !torch.int -> !torch.vtensor<[],si64>
// CHECK:         [[R:%.+]]:2 = call @host_0([[X]], [[B]], [[T]])
// CHECK:         torch.aten.tanh [[R]]#0
// CHECK:       func.func private @host_0(!torch.vtensor<[2,?],f32>, !torch.vtensor<[2,?],ui8>, !torch.vtensor<[],si64>) -> (!torch.vtensor<[2,?],f32>, !torch.vtensor<[?],si64>)
// CHECK-SAME:    lemur.host = {arguments = [{tensor = 0 : i64}, {tensor = 1 : i64}, 2, 5.000000e-01, true, unit, [{tensor = 0 : i64}, {tensor = 0 : i64}], {number = 2 : i64}, {device = "cpu"}], inputs = ["float32", "uint8", "int64"], op = "my::scale.out", results = ["float32", "int64"]}
// LINALG-LABEL: func.func @main
// LINALG:         call @host_0(%{{.*}}, %{{.*}}, %{{.*}}) {lemur.host = {{{.*}}op = "my::scale.out"{{.*}}}} : (tensor<2x?xf32>, tensor<2x?xi8>, tensor<i64>) -> (tensor<2x?xf32>, tensor<?xi64>)
func.func @main(%x: !torch.vtensor<[2,?],f32>, %b: !torch.vtensor<[2,?],ui8>) -> !torch.vtensor<[2,?],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %two = torch.constant.int 2
  %one = torch.constant.int 1
  %half = torch.constant.float 5.000000e-01
  %true = torch.constant.bool true
  %none = torch.constant.none
  %cpu = torch.constant.device "cpu"
  %n = torch.aten.size.int %x, %one : !torch.vtensor<[2,?],f32>, !torch.int -> !torch.int
  %l = torch.prim.ListConstruct %x, %x : (!torch.vtensor<[2,?],f32>, !torch.vtensor<[2,?],f32>) -> !torch.list<vtensor>
  %0:2 = torch.operator "torch.my.scale.out"(%x, %b, %two, %half, %true, %none, %l, %n, %cpu) : (!torch.vtensor<[2,?],f32>, !torch.vtensor<[2,?],ui8>, !torch.int, !torch.float, !torch.bool, !torch.none, !torch.list<vtensor>, !torch.int, !torch.Device) -> (!torch.vtensor<[2,?],f32>, !torch.vtensor<[?],si64>)
  %1 = torch.aten.tanh %0#0 : !torch.vtensor<[2,?],f32> -> !torch.vtensor<[2,?],f32>
  return %1 : !torch.vtensor<[2,?],f32>
}

// -----

// One call each, the second of what the first gives; the name of an entry is not taken again.
// CHECK-LABEL: func.func @host_0
// CHECK:         [[A:%.+]] = call @host_1
// CHECK:         [[C:%.+]] = call @host_2([[A]]
// CHECK:         return [[C]]
// LINALG-LABEL: func.func @host_0
func.func @host_0(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> {
  %0 = torch.operator "torch.my.f"(%x) : (!torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32>
  %1 = torch.operator "torch.my.f"(%0) : (!torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32>
  return %1 : !torch.vtensor<[2],f32>
}

// -----

// What lowers stays, also what does so as a composite only.
// CHECK-LABEL: func.func @lowers
// CHECK:         torch.aten.gelu
// CHECK-NOT:     lemur.host
// LINALG-LABEL: func.func @lowers
func.func @lowers(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> {
  %none = torch.constant.str "none"
  %0 = torch.aten.gelu %x, %none : !torch.vtensor<[2],f32>, !torch.str -> !torch.vtensor<[2],f32>
  return %0 : !torch.vtensor<[2],f32>
}

// -----

// A list of results is unpacked by the call; one that lowers stays.
// CHECK-LABEL: func.func @lists
// CHECK:         [[R:%.+]]:2 = call @host_0(%arg0)
// CHECK-NOT:     torch.my.parts
// CHECK:         torch.aten.split.Tensor
// CHECK:         torch.prim.ListUnpack
// CHECK:         lemur.host = {arguments = [{tensor = 0 : i64}], inputs = ["float32"], op = "my::parts", results = ["float32", "float32"]}
// LINALG-LABEL: func.func @lists
// LINALG:         call @host_0
func.func @lists(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[2],f32> {
  %two = torch.constant.int 2
  %zero = torch.constant.int 0
  %l = torch.operator "torch.my.parts"(%x) : (!torch.vtensor<[4],f32>) -> !torch.list<vtensor>
  %0:2 = torch.prim.ListUnpack %l : !torch.list<vtensor> -> !torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>
  %m = torch.aten.split.Tensor %0#1, %two, %zero : !torch.vtensor<[4],f32>, !torch.int, !torch.int -> !torch.list<vtensor>
  %1:2 = torch.prim.ListUnpack %m : !torch.list<vtensor> -> !torch.vtensor<[2],f32>, !torch.vtensor<[2],f32>
  return %1#1 : !torch.vtensor<[2],f32>
}
