// RUN: lemurc opt -p thread-random-state --split-input-file %s | filecheck %s

ml_program.global private mutable @global_seed(dense<0> : tensor<i64>) : tensor<i64>

// Each draw goes on from the last; the state returned is the last one stored.
// CHECK-NOT:   ml_program
// CHECK:       func.func @main([[S:%.+]]: tensor<i64> {lemur.state = "random_state"}, [[X:%.+]]: tensor<i64>
// CHECK-NEXT:    [[A:%.+]] = arith.muli [[S]], [[X]]
// CHECK-NEXT:    [[B:%.+]] = arith.addi [[A]], [[X]]
// CHECK-NEXT:    return [[B]], [[A]]
func.func @main(%s: tensor<i64> {lemur.state = "random_state"}, %x: tensor<i64> {lemur.input = 0 : i64})
    -> (tensor<i64> {lemur.state_update = "random_state"}, tensor<i64> {lemur.output = 0 : i64}) {
  %0 = ml_program.global_load @global_seed : tensor<i64>
  %1 = arith.muli %0, %x : tensor<i64>
  ml_program.global_store @global_seed = %1 : tensor<i64>
  %2 = ml_program.global_load @global_seed : tensor<i64>
  %3 = arith.addi %2, %x : tensor<i64>
  ml_program.global_store @global_seed = %3 : tensor<i64>
  return %s, %2 : tensor<i64>, tensor<i64>
}

// -----

// Does not apply: nothing is drawn.
// CHECK:       func.func @plain([[X:%.+]]: tensor<i64>
// CHECK-NEXT:    return [[X]]
func.func @plain(%x: tensor<i64> {lemur.input = 0 : i64}) -> (tensor<i64> {lemur.output = 0 : i64}) {
  return %x : tensor<i64>
}
