// RUN: lemurc opt -p 'func.func(canonicalize,cse)' %s | filecheck %s

// CHECK-LABEL: func.func @barriers_stay_two
// CHECK-COUNT-2: lemur.barrier
// CHECK:         return
func.func @barriers_stay_two(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = "lemur.barrier"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "lemur.barrier"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}

// Two equal transfers are one, and one that nobody reads is none.
// CHECK-LABEL: func.func @transfers_are_shared
// CHECK-NEXT:    [[T:%.+]] = "lemur.transfer"
// CHECK-NEXT:    return [[T]], [[T]]
func.func @transfers_are_shared(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = "lemur.transfer"(%x) {device = "a"} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "lemur.transfer"(%x) {device = "a"} : (tensor<2xf32>) -> tensor<2xf32>
  %2 = "lemur.transfer"(%x) {device = "b"} : (tensor<2xf32>) -> tensor<2xf32>
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}
