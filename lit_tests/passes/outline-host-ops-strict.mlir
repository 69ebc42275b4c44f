// RUN: not lemurc opt -p 'outline-host-ops{strict=true}' %s 2>&1 | filecheck %s
// CHECK: my.f x1
func.func @strict(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> {
  %0 = torch.operator "torch.my.f"(%x) : (!torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32>
  return %0 : !torch.vtensor<[2],f32>
}
