// RUN: lemurc opt --split-input-file --verify-diagnostics %s

// Plain MLIR has nothing to check.
func.func @plain(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}

// -----

// expected-error@+1 {{argument 1 needs exactly one of lemur.input, lemur.param, lemur.state; it has none}}
func.func @unmarked(%x: tensor<2xf32> {lemur.input = 0 : i64}, %w: tensor<2xf32>) {
  return
}

// -----

// expected-error@+1 {{argument 0 needs exactly one of lemur.input, lemur.param, lemur.state; it has lemur.input and lemur.param}}
func.func @both(%x: tensor<2xf32> {lemur.input = 0 : i64, lemur.param = "w"}) {
  return
}

// -----

// expected-error@+1 {{arguments 0 and 1 are both lemur.param = "w"}}
func.func @twice(%x: tensor<2xf32> {lemur.param = "w"}, %w: tensor<2xf32> {lemur.param = "w"}) {
  return
}

// -----

// expected-error@+1 {{lemur.input of argument 0 must be an index: "x"}}
func.func @not_an_index(%x: tensor<2xf32> {lemur.input = "x"}) {
  return
}

// -----

// expected-error@+1 {{lemur.param of argument 0 must be a name: ""}}
func.func @no_name(%x: tensor<2xf32> {lemur.param = ""}) {
  return
}

// -----

// expected-error@+1 {{results 0 and 1 are both lemur.output = 0 : i64}}
func.func @outputs(%x: tensor<2xf32>) -> (tensor<2xf32> {lemur.output = 0 : i64}, tensor<2xf32> {lemur.output = 0 : i64}) {
  return %x, %x : tensor<2xf32>, tensor<2xf32>
}

// -----

// expected-error@+1 {{unknown kind of composite 'linaer'; did you mean 'linear'?}}
func.func private @kind(%x: tensor<2xf32>) -> tensor<2xf32> attributes {lemur.composite = "linaer"} {
  return %x : tensor<2xf32>
}

// -----

// expected-error@+1 {{a composite has a body of one block, not 0}}
func.func private @no_body(tensor<2xf32>) -> tensor<2xf32> attributes {lemur.composite = "linear"}

// -----

// expected-error@+1 {{a composite is private}}
func.func @public(%x: tensor<2xf32>) -> tensor<2xf32> attributes {lemur.composite = "linear"} {
  return %x : tensor<2xf32>
}

// -----

func.func @costs(%x: tensor<2xf32>, %e: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@+2 {{lemur.cost needs flops, an integer that is not negative}}
  // expected-error@+1 {{lemur.cost needs live_bytes, an integer that is not negative}}
  %0 = linalg.exp {lemur.cost = {flops = -1 : i64, bytes_read = 0 : i64, bytes_written = 0 : i64}} ins(%x : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  // expected-error@+1 {{lemur.cost must be a dictionary: 3 : i64}}
  %1 = linalg.exp {lemur.cost = 3 : i64} ins(%0 : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  // expected-error@+1 {{lemur.values has 2 names for 1 results}}
  %2 = linalg.exp {lemur.values = ["v0", "v1"]} ins(%1 : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}

// -----

module attributes {lemur.system = {devices = [{name = "cpu", target = "cpu"}]}} {
  func.func @devices(%x: tensor<2xf32>, %e: tensor<2xf32>) -> tensor<2xf32> {
    // expected-error@+1 {{no device 'gpu' in lemur.system; it has cpu}}
    %0 = linalg.exp {lemur.device = "gpu"} ins(%x : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
    // expected-error@+1 {{'linalg.exp' has no device, though others of this function do}}
    %1 = linalg.exp ins(%0 : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
    // expected-error@+1 {{lemur.device must be a name: 7 : i64}}
    %2 = linalg.exp {lemur.device = 7 : i64} ins(%1 : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
    return %2 : tensor<2xf32>
  }
}

// -----

// expected-error@+1 {{malformed 'lemur.system': 'devices'}}
module attributes {lemur.system = {links = []}} {
}

// -----

// expected-error@+1 {{needs devices with distinct names, not ['a', 'a']}}
module attributes {lemur.system = {devices = [{name = "a", target = "cpu"}, {name = "a", target = "cpu"}]}} {
}

// -----

// expected-error@+1 {{stages depend on each other in a cycle: one of them is not convex}}
func.func @cycle(%x: tensor<2xf32>, %e: tensor<2xf32>) -> tensor<2xf32> {
  %0 = linalg.exp {lemur.device = "a", lemur.stage = 0 : i64} ins(%x : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %1 = linalg.exp {lemur.device = "b", lemur.stage = 1 : i64} ins(%0 : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %2 = linalg.exp {lemur.device = "a", lemur.stage = 0 : i64} ins(%1 : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}

// -----

func.func @order(%x: tensor<2xf32>, %e: tensor<2xf32>) -> tensor<2xf32> {
  %0 = linalg.exp {lemur.device = "a", lemur.stage = 1 : i64} ins(%x : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  // expected-error@+1 {{stage 0 uses a value of stage 1, which comes later}}
  %1 = linalg.exp {lemur.device = "b", lemur.stage = 0 : i64} ins(%0 : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

func.func @two_devices(%x: tensor<2xf32>, %e: tensor<2xf32>) -> tensor<2xf32> {
  %0 = linalg.exp {lemur.device = "a", lemur.stage = 0 : i64} ins(%x : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  // expected-error@+1 {{stage 0 is on "a", this operation on "b"}}
  %1 = linalg.exp {lemur.device = "b", lemur.stage = 0 : i64} ins(%0 : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

func.func @half_staged(%x: tensor<2xf32>, %e: tensor<2xf32>) -> tensor<2xf32> {
  %0 = linalg.exp {lemur.stage = 0 : i64} ins(%x : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  // expected-error@+1 {{'linalg.exp' has no stage, though others do}}
  %1 = linalg.exp ins(%0 : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// expected-error@+4 {{a stage needs lemur.device}}
// expected-error@+3 {{a stage needs lemur.target}}
// expected-error@+2 {{a stage needs lemur.cost}}
// expected-error@+1 {{a stage needs lemur.ops}}
module @stage0 {
  // expected-error@+1 {{argument 0 of a stage is a lemur.value or a lemur.param}}
  func.func @run(%x: tensor<2xf32>) -> tensor<2xf32> {
    return %x : tensor<2xf32>
  }
}
// expected-error@+5 {{a stage needs lemur.device}}
// expected-error@+4 {{a stage needs lemur.target}}
// expected-error@+3 {{a stage needs lemur.cost}}
// expected-error@+2 {{a stage needs lemur.ops}}
// expected-error@+1 {{a stage needs a function @run}}
module @stage1 {
}
func.func private @stage0_run(tensor<3xf32>) -> tensor<3xf32>
// expected-error@+1 {{lemur.results names 2 values, the function has 1}}
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> attributes {lemur.results = ["v0", "v1"]} {
  // expected-error@+1 {{stage @stage0 is (tensor<2xf32>) -> tensor<2xf32>, but is called as (tensor<3xf32>) -> tensor<3xf32>}}
  %0 = call @stage0_run(%x) {lemur.stage = @stage0} : (tensor<3xf32>) -> tensor<3xf32>
  // expected-error@+1 {{calls stage @stage7, which is not there}}
  %1 = call @stage0_run(%0) {lemur.stage = @stage7} : (tensor<3xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}
