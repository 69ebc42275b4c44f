// RUN: not lemurc opt -p thread-random-state --split-input-file %s 2>&1 | filecheck %s

ml_program.global private mutable @global_seed(dense<0> : tensor<i64>) : tensor<i64>

// CHECK: error: @main draws random numbers and has no state for the generator
func.func @main(%x: tensor<i64> {lemur.input = 0 : i64}) -> (tensor<i64> {lemur.output = 0 : i64}) {
  %0 = ml_program.global_load @global_seed : tensor<i64>
  return %0 : tensor<i64>
}

// -----

ml_program.global private mutable @global_seed(dense<0> : tensor<i64>) : tensor<i64>

// CHECK: error: random numbers are drawn inside a loop or a branch
func.func @main(%s: tensor<i64> {lemur.state = "random_state"}, %c: tensor<i1> {lemur.input = 0 : i64})
    -> (tensor<i64> {lemur.state_update = "random_state"}, tensor<i64> {lemur.output = 0 : i64}) {
  %b = tensor.extract %c[] : tensor<i1>
  %y = scf.if %b -> tensor<i64> {
    %0 = ml_program.global_load @global_seed : tensor<i64>
    scf.yield %0 : tensor<i64>
  } else {
    scf.yield %s : tensor<i64>
  }
  return %s, %y : tensor<i64>, tensor<i64>
}
