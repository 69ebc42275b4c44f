// RUN: lemurc opt -p annotate-cost,split-weights --split-input-file %s | filecheck %s

// Its 128 KiB fit neither device: parts are as large as the memories, in whole tiles.
// CHECK-LABEL: func.func @linear
// CHECK-SAME:    [[X:%[a-z0-9_]+]]: tensor<1x64xf32>
// CHECK-SAME:    [[W0:%[a-z0-9_]+]]: tensor<336x64xf32> {lemur.param = "head.weight[0..336]"}
// CHECK-SAME:    [[B0:%[a-z0-9_]+]]: tensor<336xf32> {lemur.param = "head.bias[0..336]"}
// CHECK-SAME:    [[W1:%[a-z0-9_]+]]: tensor<176x64xf32> {lemur.param = "head.weight[336..512]"}
// CHECK-SAME:    [[B1:%[a-z0-9_]+]]: tensor<176xf32> {lemur.param = "head.bias[336..512]"}
// CHECK-SAME:    head is split in 2 parts of 336 + 176 columns, because no device that may run it has room for its weight (head.weight: 128.0 KiB)
// CHECK-NEXT:    [[P0:%[a-z0-9_]+]] = call @linear_0_1x336([[X]], [[W0]], [[B0]])
// CHECK-SAME:      lemur.values = ["v0[0..336]"]
// CHECK-NEXT:    [[P1:%[a-z0-9_]+]] = call @linear_0_1x176([[X]], [[W1]], [[B1]])
// CHECK-SAME:      lemur.values = ["v0[336..512]"]
// CHECK-NEXT:    [[Y:%[a-z0-9_]+]] = tensor.concat dim(1) [[P0]], [[P1]]
// CHECK-SAME:      lemur.values = ["v0"]
// CHECK-NEXT:    return [[Y]]
// CHECK:       func.func private @linear_0_1x336
// CHECK-SAME:    lemur.composite = "linear"
// CHECK:         linalg.matmul {{.*}} -> tensor<1x336xf32>
module attributes {lemur.system = {devices = [{name = "a", target = "cpu", memory = 130000 : i64}, {name = "b", target = "cpu", memory = 65000 : i64}]}} {
func.func private @linear_0(%x: tensor<1x64xf32>, %w: tensor<512x64xf32>, %b: tensor<512xf32>) -> tensor<1x512xf32> attributes {lemur.composite = "linear", lemur.module_path = "head", lemur.operands = ["input", "weight", "bias"], no_inline} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x512xf32>
  %t = linalg.transpose ins(%w : tensor<512x64xf32>) outs(%e : tensor<64x512xf32>) permutation = [1, 0]
  %o = tensor.empty() : tensor<1x512xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<1x512xf32>) -> tensor<1x512xf32>
  %r = linalg.matmul ins(%x, %t : tensor<1x64xf32>, tensor<64x512xf32>) outs(%f : tensor<1x512xf32>) -> tensor<1x512xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%r, %b : tensor<1x512xf32>, tensor<512xf32>) outs(%o : tensor<1x512xf32>) {
  ^bb0(%p: f32, %q: f32, %u: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<1x512xf32>
  return %a : tensor<1x512xf32>
}
func.func @linear(%x: tensor<1x64xf32> {lemur.input = 0 : i64}, %w: tensor<512x64xf32> {lemur.param = "head.weight"}, %b: tensor<512xf32> {lemur.param = "head.bias"}) -> tensor<1x512xf32> {
  %0 = call @linear_0(%x, %w, %b) {no_inline} : (tensor<1x64xf32>, tensor<512x64xf32>, tensor<512xf32>) -> tensor<1x512xf32>
  return %0 : tensor<1x512xf32>
}
}

// -----

// What alone reads the result, element by element, is split with it: the sum is put together.
// CHECK-LABEL: func.func @epilogue
// CHECK-SAME:    [[R:%[a-z0-9_]+]]: tensor<1x512xf32>
// CHECK:         [[P0:%[a-z0-9_]+]] = call @linear_0_1x336
// CHECK:         [[R0:%[a-z0-9_]+]] = tensor.extract_slice [[R]][0, 0] [1, 336]
// CHECK-SAME:      lemur.values = ["v1[0..336].0"]
// CHECK:         [[S0:%[a-z0-9_]+]] = linalg.add {{.*}}ins([[P0]], [[R0]]
// CHECK:         [[P1:%[a-z0-9_]+]] = call @linear_0_1x176
// CHECK:         [[R1:%[a-z0-9_]+]] = tensor.extract_slice [[R]][0, 336] [1, 176]
// CHECK:         [[S1:%[a-z0-9_]+]] = linalg.add {{.*}}ins([[P1]], [[R1]]
// CHECK:         [[Y:%[a-z0-9_]+]] = tensor.concat dim(1) [[S0]], [[S1]]
// CHECK-NEXT:    return [[Y]]
module attributes {lemur.system = {devices = [{name = "a", target = "cpu", memory = 130000 : i64}, {name = "b", target = "cpu", memory = 65000 : i64}]}} {
func.func private @linear_0(%x: tensor<1x64xf32>, %w: tensor<512x64xf32>, %b: tensor<512xf32>) -> tensor<1x512xf32> attributes {lemur.composite = "linear", lemur.module_path = "head", lemur.operands = ["input", "weight", "bias"], no_inline} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x512xf32>
  %t = linalg.transpose ins(%w : tensor<512x64xf32>) outs(%e : tensor<64x512xf32>) permutation = [1, 0]
  %o = tensor.empty() : tensor<1x512xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<1x512xf32>) -> tensor<1x512xf32>
  %r = linalg.matmul ins(%x, %t : tensor<1x64xf32>, tensor<64x512xf32>) outs(%f : tensor<1x512xf32>) -> tensor<1x512xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%r, %b : tensor<1x512xf32>, tensor<512xf32>) outs(%o : tensor<1x512xf32>) {
  ^bb0(%p: f32, %q: f32, %u: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<1x512xf32>
  return %a : tensor<1x512xf32>
}
func.func @epilogue(%x: tensor<1x64xf32> {lemur.input = 0 : i64}, %w: tensor<512x64xf32> {lemur.param = "head.weight"}, %b: tensor<512xf32> {lemur.param = "head.bias"}, %r: tensor<1x512xf32> {lemur.input = 1 : i64}) -> tensor<1x512xf32> {
  %0 = call @linear_0(%x, %w, %b) {no_inline} : (tensor<1x64xf32>, tensor<512x64xf32>, tensor<512xf32>) -> tensor<1x512xf32>
  %e = tensor.empty() : tensor<1x512xf32>
  %1 = linalg.add ins(%0, %r : tensor<1x512xf32>, tensor<1x512xf32>) outs(%e : tensor<1x512xf32>) -> tensor<1x512xf32>
  return %1 : tensor<1x512xf32>
}
}

// -----

// Others read the result too: it is put together first.
// CHECK-LABEL: func.func @shared
// CHECK:         [[Y:%[a-z0-9_]+]] = tensor.concat
// CHECK:         linalg.add {{.*}}ins([[Y]],
module attributes {lemur.system = {devices = [{name = "a", target = "cpu", memory = 130000 : i64}, {name = "b", target = "cpu", memory = 65000 : i64}]}} {
func.func private @linear_0(%x: tensor<1x64xf32>, %w: tensor<512x64xf32>, %b: tensor<512xf32>) -> tensor<1x512xf32> attributes {lemur.composite = "linear", lemur.module_path = "head", lemur.operands = ["input", "weight", "bias"], no_inline} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x512xf32>
  %t = linalg.transpose ins(%w : tensor<512x64xf32>) outs(%e : tensor<64x512xf32>) permutation = [1, 0]
  %o = tensor.empty() : tensor<1x512xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<1x512xf32>) -> tensor<1x512xf32>
  %r = linalg.matmul ins(%x, %t : tensor<1x64xf32>, tensor<64x512xf32>) outs(%f : tensor<1x512xf32>) -> tensor<1x512xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%r, %b : tensor<1x512xf32>, tensor<512xf32>) outs(%o : tensor<1x512xf32>) {
  ^bb0(%p: f32, %q: f32, %u: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<1x512xf32>
  return %a : tensor<1x512xf32>
}
func.func @shared(%x: tensor<1x64xf32> {lemur.input = 0 : i64}, %w: tensor<512x64xf32> {lemur.param = "head.weight"}, %b: tensor<512xf32> {lemur.param = "head.bias"}, %r: tensor<1x512xf32> {lemur.input = 1 : i64}) -> (tensor<1x512xf32>, tensor<1x512xf32>) {
  %0 = call @linear_0(%x, %w, %b) {no_inline} : (tensor<1x64xf32>, tensor<512x64xf32>, tensor<512xf32>) -> tensor<1x512xf32>
  %e = tensor.empty() : tensor<1x512xf32>
  %1 = linalg.add ins(%0, %r : tensor<1x512xf32>, tensor<1x512xf32>) outs(%e : tensor<1x512xf32>) -> tensor<1x512xf32>
  return %0, %1 : tensor<1x512xf32>, tensor<1x512xf32>
}
}

// -----

// A table is split by columns.
// CHECK-LABEL: func.func @table
// CHECK-SAME:    tensor<512x40xf32> {lemur.param = "emb.weight[:,0..40]"}
// CHECK-SAME:    tensor<512x24xf32> {lemur.param = "emb.weight[:,40..64]"}
// CHECK:         tensor.concat dim(2) {{.*}} : (tensor<1x2x40xf32>, tensor<1x2x24xf32>) -> tensor<1x2x64xf32>
module attributes {lemur.system = {devices = [{name = "a", target = "cpu", memory = 130000 : i64}, {name = "b", target = "cpu", memory = 65000 : i64}]}} {
func.func private @embedding_0(%w: tensor<512x64xf32>, %i: tensor<1x2xi64>) -> tensor<1x2x64xf32> attributes {lemur.composite = "embedding", lemur.module_path = "emb", lemur.operands = ["weight", "indices"], no_inline} {
  %e = tensor.empty() : tensor<1x2x64xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%i : tensor<1x2xi64>) outs(%e : tensor<1x2x64xf32>) {
  ^bb0(%in: i64, %out: f32):
    %row = arith.index_cast %in : i64 to index
    %column = linalg.index 2 : index
    %value = tensor.extract %w[%row, %column] : tensor<512x64xf32>
    linalg.yield %value : f32
  } -> tensor<1x2x64xf32>
  return %0 : tensor<1x2x64xf32>
}
func.func @table(%i: tensor<1x2xi64> {lemur.input = 0 : i64}, %w: tensor<512x64xf32> {lemur.param = "emb.weight"}) -> tensor<1x2x64xf32> {
  %0 = call @embedding_0(%w, %i) {no_inline} : (tensor<512x64xf32>, tensor<1x2xi64>) -> tensor<1x2x64xf32>
  return %0 : tensor<1x2x64xf32>
}
}

// -----

// Columns that are counted differ in more than their weights: it stays in one.
// CHECK-LABEL: func.func @counted
// CHECK-NOT:     lemur.splits
// CHECK-NOT:     tensor.concat
// CHECK:         call @linear_0(
// CHECK-NOT:     tensor.concat
module attributes {lemur.system = {devices = [{name = "a", target = "cpu", memory = 130000 : i64}, {name = "b", target = "cpu", memory = 65000 : i64}]}} {
func.func private @linear_0(%x: tensor<1x64xf32>, %w: tensor<512x64xf32>, %b: tensor<512xf32>) -> tensor<1x512xf32> attributes {lemur.composite = "linear", lemur.module_path = "head", lemur.operands = ["input", "weight", "bias"], no_inline} {
  %o = tensor.empty() : tensor<1x512xf32>
  %f = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%o : tensor<1x512xf32>) {
  ^bb0(%u: f32):
    %n = linalg.index 1 : index
    %m = arith.index_cast %n : index to i64
    %v = arith.sitofp %m : i64 to f32
    linalg.yield %v : f32
  } -> tensor<1x512xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<1x64xf32>, tensor<512x64xf32>) outs(%f : tensor<1x512xf32>) {
  ^bb0(%p: f32, %q: f32, %u: f32):
    %s = arith.mulf %p, %q : f32
    %t = arith.addf %s, %u : f32
    linalg.yield %t : f32
  } -> tensor<1x512xf32>
  return %r : tensor<1x512xf32>
}
func.func @counted(%x: tensor<1x64xf32> {lemur.input = 0 : i64}, %w: tensor<512x64xf32> {lemur.param = "head.weight"}, %b: tensor<512xf32> {lemur.param = "head.bias"}) -> tensor<1x512xf32> {
  %0 = call @linear_0(%x, %w, %b) {no_inline} : (tensor<1x64xf32>, tensor<512x64xf32>, tensor<512xf32>) -> tensor<1x512xf32>
  return %0 : tensor<1x512xf32>
}
}

// -----

// The larger device holds it.
// CHECK-LABEL: func.func @fits
// CHECK-NOT:     lemur.splits
// CHECK-NOT:     tensor.concat
// CHECK:         call @linear_0(
// CHECK-NOT:     tensor.concat
module attributes {lemur.system = {devices = [{name = "a", target = "cpu", memory = 200000 : i64}, {name = "b", target = "cpu", memory = 65000 : i64}]}} {
func.func private @linear_0(%x: tensor<1x64xf32>, %w: tensor<512x64xf32>, %b: tensor<512xf32>) -> tensor<1x512xf32> attributes {lemur.composite = "linear", lemur.module_path = "head", lemur.operands = ["input", "weight", "bias"], no_inline} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x512xf32>
  %t = linalg.transpose ins(%w : tensor<512x64xf32>) outs(%e : tensor<64x512xf32>) permutation = [1, 0]
  %o = tensor.empty() : tensor<1x512xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<1x512xf32>) -> tensor<1x512xf32>
  %r = linalg.matmul ins(%x, %t : tensor<1x64xf32>, tensor<64x512xf32>) outs(%f : tensor<1x512xf32>) -> tensor<1x512xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%r, %b : tensor<1x512xf32>, tensor<512xf32>) outs(%o : tensor<1x512xf32>) {
  ^bb0(%p: f32, %q: f32, %u: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<1x512xf32>
  return %a : tensor<1x512xf32>
}
func.func @fits(%x: tensor<1x64xf32> {lemur.input = 0 : i64}, %w: tensor<512x64xf32> {lemur.param = "head.weight"}, %b: tensor<512xf32> {lemur.param = "head.bias"}) -> tensor<1x512xf32> {
  %0 = call @linear_0(%x, %w, %b) {no_inline} : (tensor<1x64xf32>, tensor<512x64xf32>, tensor<512xf32>) -> tensor<1x512xf32>
  return %0 : tensor<1x512xf32>
}
}

// -----

// A pin leaves no second device.
// CHECK-LABEL: func.func @pinned
// CHECK-NOT:     lemur.splits
// CHECK-NOT:     tensor.concat
// CHECK:         call @linear_0(
// CHECK-NOT:     tensor.concat
module attributes {lemur.system = {devices = [{name = "a", target = "cpu", memory = 130000 : i64}, {name = "b", target = "cpu", memory = 65000 : i64}], pins = [["head", "a"]]}} {
func.func private @linear_0(%x: tensor<1x64xf32>, %w: tensor<512x64xf32>, %b: tensor<512xf32>) -> tensor<1x512xf32> attributes {lemur.composite = "linear", lemur.module_path = "head", lemur.operands = ["input", "weight", "bias"], no_inline} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x512xf32>
  %t = linalg.transpose ins(%w : tensor<512x64xf32>) outs(%e : tensor<64x512xf32>) permutation = [1, 0]
  %o = tensor.empty() : tensor<1x512xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<1x512xf32>) -> tensor<1x512xf32>
  %r = linalg.matmul ins(%x, %t : tensor<1x64xf32>, tensor<64x512xf32>) outs(%f : tensor<1x512xf32>) -> tensor<1x512xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%r, %b : tensor<1x512xf32>, tensor<512xf32>) outs(%o : tensor<1x512xf32>) {
  ^bb0(%p: f32, %q: f32, %u: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<1x512xf32>
  return %a : tensor<1x512xf32>
}
func.func @pinned(%x: tensor<1x64xf32> {lemur.input = 0 : i64}, %w: tensor<512x64xf32> {lemur.param = "head.weight"}, %b: tensor<512xf32> {lemur.param = "head.bias"}) -> tensor<1x512xf32> {
  %0 = call @linear_0(%x, %w, %b) {no_inline} : (tensor<1x64xf32>, tensor<512x64xf32>, tensor<512xf32>) -> tensor<1x512xf32>
  return %0 : tensor<1x512xf32>
}
}

// -----

// Both together are too small.
// CHECK-LABEL: func.func @hopeless
// CHECK-NOT:     lemur.splits
// CHECK-NOT:     tensor.concat
// CHECK:         call @linear_0(
// CHECK-NOT:     tensor.concat
module attributes {lemur.system = {devices = [{name = "a", target = "cpu", memory = 60000 : i64}, {name = "b", target = "cpu", memory = 65000 : i64}]}} {
func.func private @linear_0(%x: tensor<1x64xf32>, %w: tensor<512x64xf32>, %b: tensor<512xf32>) -> tensor<1x512xf32> attributes {lemur.composite = "linear", lemur.module_path = "head", lemur.operands = ["input", "weight", "bias"], no_inline} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x512xf32>
  %t = linalg.transpose ins(%w : tensor<512x64xf32>) outs(%e : tensor<64x512xf32>) permutation = [1, 0]
  %o = tensor.empty() : tensor<1x512xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<1x512xf32>) -> tensor<1x512xf32>
  %r = linalg.matmul ins(%x, %t : tensor<1x64xf32>, tensor<64x512xf32>) outs(%f : tensor<1x512xf32>) -> tensor<1x512xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%r, %b : tensor<1x512xf32>, tensor<512xf32>) outs(%o : tensor<1x512xf32>) {
  ^bb0(%p: f32, %q: f32, %u: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<1x512xf32>
  return %a : tensor<1x512xf32>
}
func.func @hopeless(%x: tensor<1x64xf32> {lemur.input = 0 : i64}, %w: tensor<512x64xf32> {lemur.param = "head.weight"}, %b: tensor<512xf32> {lemur.param = "head.bias"}) -> tensor<1x512xf32> {
  %0 = call @linear_0(%x, %w, %b) {no_inline} : (tensor<1x64xf32>, tensor<512x64xf32>, tensor<512xf32>) -> tensor<1x512xf32>
  return %0 : tensor<1x512xf32>
}
}
