// RUN: lemurc opt %s | lemurc opt | filecheck %s

// Text, printed and read again, is the same; cse shares pure markers only.
// CHECK-LABEL: func.func @markers
// CHECK-SAME:    ([[X:%.+]]: tensor<2x?xf32>)
// CHECK-NEXT:    [[T:%.+]] = "lemur.transfer"([[X]]) {device = "vulkan"} : (tensor<2x?xf32>) -> tensor<2x?xf32>
// CHECK-NEXT:    [[P:%.+]] = "lemur.pin"([[T]]) {device = "cpu"} : (tensor<2x?xf32>) -> tensor<2x?xf32>
// CHECK-NEXT:    [[B:%.+]] = "lemur.barrier"([[P]]) : (tensor<2x?xf32>) -> tensor<2x?xf32>
// CHECK-NEXT:    return [[B]]
func.func @markers(%x: tensor<2x?xf32>) -> tensor<2x?xf32> {
  %0 = "lemur.transfer"(%x) {device = "vulkan"} : (tensor<2x?xf32>) -> tensor<2x?xf32>
  %1 = "lemur.pin"(%0) {device = "cpu"} : (tensor<2x?xf32>) -> tensor<2x?xf32>
  %2 = "lemur.barrier"(%1) : (tensor<2x?xf32>) -> tensor<2x?xf32>
  return %2 : tensor<2x?xf32>
}
