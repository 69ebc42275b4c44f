// RUN: lemurc opt -p annotate-cost,chunk --split-input-file %s | filecheck %s

// The hidden layer does not fit: half of the rows at a time do.
// CHECK-LABEL: func.func @rows
// CHECK-SAME:    lemur.chunks = ["up is computed in chunks of 32 rows"]
// CHECK:         [[A:%.+]] = tensor.extract_slice [[X:%.+]][0, 0] [32, 4]
// CHECK:         [[H:%.+]] = call @linear_0_0x32([[A]]
// CHECK:         [[Y:%.+]] = call @linear_1_0x32([[H]]
// CHECK:         [[B:%.+]] = tensor.extract_slice [[X]][32, 0] [32, 4]
// CHECK:         [[H2:%.+]] = call @linear_0_0x32([[B]]
// CHECK:         [[Y2:%.+]] = call @linear_1_0x32([[H2]]
// CHECK:         tensor.concat dim(0) [[Y]], [[Y2]]
module attributes {lemur.system = {devices = [{name = "a", target = "cpu", memory = 70000 : i64}]}} {
  func.func @rows(%x: tensor<64x4xf32> {lemur.input = 0 : i64}, %a: tensor<100x4xf32> {lemur.param = "a"}, %b: tensor<4x100xf32> {lemur.param = "b"}) -> tensor<64x4xf32> {
    %0 = call @linear_0(%x, %a) {no_inline} : (tensor<64x4xf32>, tensor<100x4xf32>) -> tensor<64x100xf32>
    %1 = call @linear_1(%0, %b) {no_inline} : (tensor<64x100xf32>, tensor<4x100xf32>) -> tensor<64x4xf32>
    return %1 : tensor<64x4xf32>
  }
  func.func private @linear_0(%x: tensor<64x4xf32>, %w: tensor<100x4xf32>) -> tensor<64x100xf32> attributes {lemur.composite = "linear", lemur.module_path = "up", no_inline} {
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<64x100xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<64x100xf32>) -> tensor<64x100xf32>
    %0 = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<64x4xf32>, tensor<100x4xf32>) outs(%f : tensor<64x100xf32>) {
    ^bb0(%l: f32, %r: f32, %o: f32):
      %m = arith.mulf %l, %r : f32
      %s = arith.addf %o, %m : f32
      linalg.yield %s : f32
    } -> tensor<64x100xf32>
    return %0 : tensor<64x100xf32>
  }
  func.func private @linear_1(%x: tensor<64x100xf32>, %w: tensor<4x100xf32>) -> tensor<64x4xf32> attributes {lemur.composite = "linear", lemur.module_path = "down", no_inline} {
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<64x4xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<64x4xf32>) -> tensor<64x4xf32>
    %0 = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<64x100xf32>, tensor<4x100xf32>) outs(%f : tensor<64x4xf32>) {
    ^bb0(%l: f32, %r: f32, %o: f32):
      %m = arith.mulf %l, %r : f32
      %s = arith.addf %o, %m : f32
      linalg.yield %s : f32
    } -> tensor<64x4xf32>
    return %0 : tensor<64x4xf32>
  }
}

// -----

// There is room: nothing is done.
// CHECK-LABEL: func.func @fits
// CHECK-NOT:     lemur.chunks
// CHECK-NOT:     tensor.concat
// CHECK:         return
module attributes {lemur.system = {devices = [{name = "a", target = "cpu", memory = 1000000 : i64}]}} {
  func.func @fits(%x: tensor<64x100xf32> {lemur.input = 0 : i64}) -> tensor<64xf32> {
    %e = tensor.empty() : tensor<64x100xf32>
    %s = tensor.empty() : tensor<64xf32>
    %0 = linalg.exp ins(%x : tensor<64x100xf32>) outs(%e : tensor<64x100xf32>) -> tensor<64x100xf32>
    %1 = linalg.reduce { arith.addf } ins(%0 : tensor<64x100xf32>) outs(%s : tensor<64xf32>) dimensions = [1]
    return %1 : tensor<64xf32>
  }
}

// -----

// What is wide is the result itself: no cut makes it smaller, and the program stays as it is.
// CHECK-LABEL: func.func @no_help
// CHECK-SAME:    lemur.no_chunks = "most memory is needed at exp of exp, where no chain of operations leads
// CHECK-NEXT:    tensor.empty
// CHECK-NEXT:    linalg.exp
// CHECK-NEXT:    return
module attributes {lemur.system = {devices = [{name = "a", target = "cpu", memory = 1000 : i64}]}} {
  func.func @no_help(%x: tensor<64x100xf32> {lemur.input = 0 : i64}) -> tensor<64x100xf32> {
    %e = tensor.empty() : tensor<64x100xf32>
    %0 = linalg.exp ins(%x : tensor<64x100xf32>) outs(%e : tensor<64x100xf32>) -> tensor<64x100xf32>
    return %0 : tensor<64x100xf32>
  }
}
