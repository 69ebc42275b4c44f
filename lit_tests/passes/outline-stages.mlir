// RUN: lemurc opt -p 'annotate-cost,form-stages,schedule,outline-stages' --split-input-file %s | filecheck %s

// Results that are inputs, weights or state; a value of two readers; a marker; a shared
// composite; free operations cloned into each stage.
// CHECK-LABEL: module attributes {lemur.system
// CHECK-NOT:     @unused
// CHECK:         module @stage0 attributes {lemur.cost = {{{.*}}}, lemur.device = "a", lemur.ops = {exp = 1 : i64, gelu = 2 : i64}, lemur.target = "cpu", lemur.work = [{{.+}}]}
// CHECK-NEXT:      func.func @run([[X:%.+]]: tensor<2xf32> {lemur.value = "input:0"}, [[S:%.+]]: tensor<2xf32> {lemur.value = "state:cache"}) -> (tensor<2xf32> {lemur.value = "v0"}, tensor<2xf32> {lemur.value = "v1"})
// CHECK-NEXT:        [[A:%.+]] = call @gelu_0([[X]]) {no_inline}
// CHECK-NEXT:        [[B:%.+]] = call @gelu_0([[S]]) {no_inline}
// CHECK:             return
// CHECK:           func.func private @gelu_0
// CHECK-NOT:       func.func private @gelu_1
// CHECK:         func.func private @stage0_run(tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
// CHECK:         module @stage1 attributes {{{.*}}lemur.device = "b"{{.*}}lemur.target = "vulkan"{{.*}}}
// CHECK-NEXT:      func.func @run([[V:%.+]]: tensor<2xf32> {lemur.value = "v1"}, [[U:%.+]]: tensor<2xf32> {lemur.value = "v0"}, [[W:%.+]]: tensor<2xf32> {lemur.param = "w"}) -> (tensor<2xf32> {lemur.value = "v5"})
// CHECK-NEXT:        [[E:%.+]] = tensor.empty
// CHECK-NEXT:        [[P:%.+]] = linalg.add ins([[V]], [[W]]{{.+}} outs([[E]]
// CHECK-NEXT:        [[Q:%.+]] = linalg.mul ins([[P]], [[U]]{{.+}} outs([[E]]
// CHECK-NEXT:        return [[Q]]
// CHECK:         func.func @main(
// CHECK-SAME:      lemur.results = ["v5", "input:0", "param:w", "v0", "state:cache"]
// CHECK-NEXT:      [[R:%.+]]:2 = call @stage0_run({{.+}}) {lemur.stage = @stage0}
// CHECK-NEXT:      [[T:%.+]] = call @stage1_run([[R]]#1, [[R]]#0, %{{.+}}) {lemur.stage = @stage1}
// CHECK-NEXT:      return [[T]], %{{.+}}, %{{.+}}, [[R]]#0, %{{.+}}
module attributes {lemur.system = {devices = [{name = "a", target = "cpu"}, {name = "b", target = "vulkan"}]}} {
  func.func private @gelu_0(%x: tensor<2xf32>) -> tensor<2xf32> attributes {lemur.composite = "gelu", lemur.module_path = "one", no_inline} {
    return %x : tensor<2xf32>
  }
  func.func private @gelu_1(%x: tensor<2xf32>) -> tensor<2xf32> attributes {lemur.composite = "gelu", lemur.module_path = "two", no_inline} {
    return %x : tensor<2xf32>
  }
  func.func private @unused(%x: tensor<2xf32>) -> tensor<2xf32> attributes {lemur.composite = "gelu", no_inline} {
    return %x : tensor<2xf32>
  }
  func.func @main(%x: tensor<2xf32> {lemur.input = 0 : i64}, %w: tensor<2xf32> {lemur.param = "w"}, %s: tensor<2xf32> {lemur.state = "cache"})
      -> (tensor<2xf32> {lemur.output = 0 : i64}, tensor<2xf32> {lemur.output = 1 : i64}, tensor<2xf32> {lemur.output = 2 : i64}, tensor<2xf32> {lemur.output = 3 : i64}, tensor<2xf32> {lemur.output = 4 : i64}) {
    %e = tensor.empty() : tensor<2xf32>
    %0 = call @gelu_0(%x) {no_inline, lemur.device = "a"} : (tensor<2xf32>) -> tensor<2xf32>
    %1 = call @gelu_1(%s) {no_inline, lemur.device = "a"} : (tensor<2xf32>) -> tensor<2xf32>
    %2 = linalg.exp {lemur.device = "a"} ins(%1 : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
    %3 = "lemur.transfer"(%1) {device = "b", lemur.device = "b"} : (tensor<2xf32>) -> tensor<2xf32>
    %4 = linalg.add {lemur.device = "b"} ins(%3, %w : tensor<2xf32>, tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
    %5 = linalg.mul {lemur.device = "b"} ins(%4, %0 : tensor<2xf32>, tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
    return %5, %x, %w, %0, %s : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
}

// -----

// Two entries number their stages on; an entry that only hands on has none.
// CHECK:       module @stage0
// CHECK:       func.func @prefill
// CHECK:       module @stage1
// CHECK:       func.func @decode
// CHECK-NOT:   module @stage2
// CHECK:       func.func @hand_on({{.+}}) -> tensor<2xf32> attributes {lemur.results = ["input:0"]}
// CHECK-NEXT:    return
func.func @prefill(%x: tensor<2xf32> {lemur.input = 0 : i64}) -> tensor<2xf32> {
  %e = tensor.empty() : tensor<2xf32>
  %0 = linalg.exp {lemur.device = "cpu"} ins(%x : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @decode(%x: tensor<2xf32> {lemur.input = 0 : i64}) -> tensor<2xf32> {
  %c = arith.constant {lemur.device = "cpu"} dense<1.0> : tensor<2xf32>
  return %c : tensor<2xf32>
}
func.func @hand_on(%x: tensor<2xf32> {lemur.input = 0 : i64}) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
