// RUN: lemurc opt -p 'simplify,annotate-cost,place,form-stages,schedule,outline-stages' %s | filecheck %s

// Each call of PyTorch's is a stage; a constant it reads is computed by a stage before it, a weight
// is not; an unread result is no output, an unread call and its declaration are gone.
// CHECK:       module @stage0 attributes {{{.*}}lemur.device = "cpu", lemur.ops = {constant = 1 : i64, exp = 1 : i64}, lemur.target = "cpu"{{.*}}}
// CHECK:         return %{{.*}}, %{{.*}} : tensor<2xf32>, tensor<2xf32>
// CHECK:       module @stage1 attributes {{{.*}}lemur.device = "host", lemur.ops = {"my::f" = 1 : i64}, lemur.target = "host"{{.*}}}
// CHECK-NEXT:    func.func @run([[A:%.+]]: tensor<2xf32> {lemur.value = "v1"}, [[C:%.+]]: tensor<2xf32> {lemur.value = "v0"}, [[W:%.+]]: tensor<2xf32> {lemur.param = "w"}) -> (tensor<2xf32> {lemur.value = "v2"})
// CHECK-NEXT:      [[R:%.+]]:2 = call @operator([[A]], [[W]], [[C]], [[A]]) {lemur.host =
// CHECK-NEXT:      return [[R]]#0
// CHECK:         func.func private @operator
// CHECK:       module @stage2 attributes {{{.*}}lemur.ops = {"my::g" = 1 : i64}, lemur.target = "host"{{.*}}}
// CHECK:       module @stage3 attributes {{{.*}}lemur.device = "cpu", lemur.ops = {exp = 1 : i64}
// CHECK-NOT:   @unread
#f = {op = "my::f", arguments = [{tensor = 0 : i64}, {tensor = 1 : i64}, {tensor = 2 : i64}, {tensor = 3 : i64}], inputs = ["float32", "float32", "float32", "float32"], results = ["float32", "float32"]}
#g = {op = "my::g", arguments = [{tensor = 0 : i64}], inputs = ["float32"], results = ["float32"]}
module attributes {lemur.system = {devices = [{name = "cpu", target = "cpu"}, {name = "host", target = "host"}], pins = [["layer", "cpu"]]}} {
  func.func @main(%x: tensor<2xf32> {lemur.input = 0 : i64}, %w: tensor<2xf32> {lemur.param = "w"}) -> (tensor<2xf32> {lemur.output = 0 : i64}) {
    %c = arith.constant dense<1.0> : tensor<2xf32>
    %e = tensor.empty() : tensor<2xf32>
    %a = linalg.exp ins(%x : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
    %0:2 = call @f(%a, %w, %c, %a) {lemur.host = #f} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) loc("layer")
    %1 = call @g(%0#0) {lemur.host = #g} : (tensor<2xf32>) -> tensor<2xf32>
    %2 = call @unread(%0#0) {lemur.host = #g} : (tensor<2xf32>) -> tensor<2xf32>
    %b = linalg.exp ins(%1 : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
    return %b : tensor<2xf32>
  }
  func.func private @f(tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) attributes {lemur.host = #f}
  func.func private @g(tensor<2xf32>) -> tensor<2xf32> attributes {lemur.host = #g}
  func.func private @unread(tensor<2xf32>) -> tensor<2xf32> attributes {lemur.host = #g}
}
