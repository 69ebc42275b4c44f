// RUN: lemurc opt -p keep-order --split-input-file %s | filecheck %s

// What is added at the end would be computed there, and keep the wide value that it is made of.
// CHECK-LABEL: func.func @read_later
// CHECK:         [[A:%.+]] = linalg.reduce {{.*}}
// CHECK-NEXT:    [[HELD:%.+]] = "lemur.barrier"([[A]]) {lemur.device = "cpu", lemur.stage = 0 : i64, lemur.values = ["v1.held"]}
// CHECK:         [[B:%.+]] = linalg.reduce
// CHECK-NEXT:    linalg.add {{.*}}ins([[HELD]], [[B]] :
func.func @read_later(%x: tensor<f32>) -> tensor<f32> {
  %e = tensor.empty() : tensor<200xf32>
  %s = tensor.empty() : tensor<f32>
  %b = linalg.broadcast ins(%x : tensor<f32>) outs(%e : tensor<200xf32>) dimensions = [0] {lemur.stage = 0 : i64, lemur.device = "cpu", lemur.values = ["v0"]}
  %1 = linalg.reduce { arith.addf } ins(%b : tensor<200xf32>) outs(%s : tensor<f32>) dimensions = [0] {lemur.stage = 0 : i64, lemur.device = "cpu", lemur.values = ["v1"]}
  %c = linalg.broadcast ins(%x : tensor<f32>) outs(%e : tensor<200xf32>) dimensions = [0] {lemur.stage = 0 : i64, lemur.device = "cpu", lemur.values = ["v2"]}
  %3 = linalg.reduce { arith.mulf } ins(%c : tensor<200xf32>) outs(%s : tensor<f32>) dimensions = [0] {lemur.stage = 0 : i64, lemur.device = "cpu", lemur.values = ["v3"]}
  %4 = linalg.add {lemur.stage = 0 : i64, lemur.device = "cpu", lemur.values = ["v4"]} ins(%1, %3 : tensor<f32>, tensor<f32>) outs(%s : tensor<f32>) -> tensor<f32>
  return %4 : tensor<f32>
}

// -----

// Read at once, or kept by others anyway: no barrier, so that fusion is free.
// CHECK-LABEL: func.func @chain
// CHECK-NOT:     lemur.barrier
func.func @chain(%x: tensor<200xf32>) -> tensor<200xf32> {
  %e = tensor.empty() : tensor<200xf32>
  %s = tensor.empty() : tensor<f32>
  %0 = linalg.exp {lemur.stage = 0 : i64} ins(%x : tensor<200xf32>) outs(%e : tensor<200xf32>) -> tensor<200xf32>
  %1 = linalg.reduce { arith.addf } ins(%0 : tensor<200xf32>) outs(%s : tensor<f32>) dimensions = [0] {lemur.stage = 0 : i64}
  %2 = linalg.broadcast ins(%1 : tensor<f32>) outs(%e : tensor<200xf32>) dimensions = [0] {lemur.stage = 0 : i64}
  %3 = linalg.add {lemur.stage = 0 : i64} ins(%0, %2 : tensor<200xf32>, tensor<200xf32>) outs(%e : tensor<200xf32>) -> tensor<200xf32>
  return %3 : tensor<200xf32>
}

// -----

// Of a size known at the call only.
// CHECK-LABEL: func.func @dynamic
// CHECK-NOT:     lemur.barrier
func.func @dynamic(%x: tensor<?x200xf32> {lemur.dim_max = [9, -1], lemur.input = 0 : i64}) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x200xf32>
  %e = tensor.empty(%n) : tensor<?x200xf32>
  %s = tensor.empty(%n) : tensor<?xf32>
  %b = linalg.exp {lemur.stage = 0 : i64} ins(%x : tensor<?x200xf32>) outs(%e : tensor<?x200xf32>) -> tensor<?x200xf32>
  %1 = linalg.reduce { arith.addf } ins(%b : tensor<?x200xf32>) outs(%s : tensor<?xf32>) dimensions = [1] {lemur.stage = 0 : i64}
  %c = linalg.tanh {lemur.stage = 0 : i64} ins(%x : tensor<?x200xf32>) outs(%e : tensor<?x200xf32>) -> tensor<?x200xf32>
  %3 = linalg.reduce { arith.mulf } ins(%c : tensor<?x200xf32>) outs(%s : tensor<?xf32>) dimensions = [1] {lemur.stage = 0 : i64}
  %4 = linalg.add {lemur.stage = 0 : i64} ins(%1, %3 : tensor<?xf32>, tensor<?xf32>) outs(%s : tensor<?xf32>) -> tensor<?xf32>
  return %4 : tensor<?xf32>
}
