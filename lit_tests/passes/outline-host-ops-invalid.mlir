// RUN: lemurc opt -p outline-host-ops --split-input-file --verify-diagnostics %s

// expected-error@unknown {{my.noise x1 at -:6, not on the host either: it draws random numbers}}
module attributes {lemur.not_on_host = {my.noise = "it draws random numbers"}} {
func.func @random(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> {
  %0 = torch.operator "torch.my.noise"(%x) : (!torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32>
  return %0 : !torch.vtensor<[2],f32>
}
}

// -----

// expected-error@unknown {{my.wave x1 at -:15, not on the host either: no stage can pass on a !torch.vtensor<[2],complex<f32>>}}
func.func @complex(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],complex<f32>> {
  %0 = torch.operator "torch.my.wave"(%x) : (!torch.vtensor<[2],f32>) -> !torch.vtensor<[2],complex<f32>>
  return %0 : !torch.vtensor<[2],complex<f32>>
}

// -----

// expected-error@unknown {{my.f x1 at -:24, not on the host either: it stands in a loop or a branch}}
func.func @branch(%x: !torch.vtensor<[2],f32>, %c: !torch.bool) -> !torch.vtensor<[2],f32> {
  %0 = torch.prim.If %c -> (!torch.vtensor<[2],f32>) {
    %1 = torch.operator "torch.my.f"(%x) : (!torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32>
    torch.prim.If.yield %1 : !torch.vtensor<[2],f32>
  } else {
    torch.prim.If.yield %x : !torch.vtensor<[2],f32>
  }
  return %0 : !torch.vtensor<[2],f32>
}

// -----

// expected-error@unknown {{my.f x1 at -:36, not on the host either: it takes a !torch.Generator, which is no tensor, number or constant}}
func.func @object(%x: !torch.vtensor<[2],f32>, %g: !torch.Generator) -> !torch.vtensor<[2],f32> {
  %0 = torch.operator "torch.my.f"(%x, %g) : (!torch.vtensor<[2],f32>, !torch.Generator) -> !torch.vtensor<[2],f32>
  return %0 : !torch.vtensor<[2],f32>
}
