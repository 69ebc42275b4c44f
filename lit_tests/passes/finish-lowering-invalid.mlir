// RUN: not lemurc opt -p finish-lowering %s 2>&1 | filecheck %s

// CHECK: a dynamic size would be taken for a constant by the lowering
// CHECK: model.py:12 (encoder.0)
func.func @narrowing(%x: tensor<?x?x32xf32>) -> tensor<?x1x32xf32> {
  %0 = tensor.cast %x : tensor<?x?x32xf32> to tensor<?x1x32xf32> loc("encoder.0"("model.py":12:0))
  return %0 : tensor<?x1x32xf32>
}
