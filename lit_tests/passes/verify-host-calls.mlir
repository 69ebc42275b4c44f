// RUN: lemurc opt --split-input-file --verify-diagnostics %s

func.func private @f(tensor<2xf32>) -> tensor<2xf32>
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{lemur.host needs arguments, inputs, op, results}}
  %0 = call @f(%x) {lemur.host = {op = "my::f"}} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func private @f(tensor<2xf32>) -> tensor<2xf32>
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@+2 {{'f' is no operator of PyTorch, such as my_library::scale}}
  // expected-error@+1 {{lemur.host names operand 1 of 1}}
  %0 = call @f(%x) {lemur.host = {op = "f", arguments = [[{tensor = 1 : i64}]], inputs = ["float32"], results = ["float32"]}} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func private @f(tensor<2xf32>) -> tensor<2xf32>
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@+2 {{lemur.host has 0 inputs, the call 1}}
  // expected-error@+1 {{lemur.host has 2 results, the call 1}}
  %0 = call @f(%x) {lemur.host = {op = "my::f", arguments = [{tensor = 0 : i64}], inputs = [], results = ["float32", "float32"]}} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

module attributes {lemur.system = {devices = [{name = "cpu", target = "cpu"}, {name = "host", target = "host"}]}} {
  func.func private @f(tensor<2xf32>) -> tensor<2xf32>
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    // expected-error@+1 {{PyTorch runs this call, so it goes to the host, not to 'cpu'}}
    %0 = call @f(%x) {lemur.device = "cpu", lemur.host = {op = "my::f", arguments = [{tensor = 0 : i64}], inputs = ["float32"], results = ["float32"]}} : (tensor<2xf32>) -> tensor<2xf32>
    %e = tensor.empty() : tensor<2xf32>
    // expected-error@+1 {{'linalg.exp' is on the host, where only PyTorch runs}}
    %1 = linalg.exp {lemur.device = "host"} ins(%0 : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
    return %1 : tensor<2xf32>
  }
}
