// RUN: lemurc opt --split-input-file --verify-diagnostics %s

func.func @type_changes(%x: tensor<2xf32>) {
  // expected-error@+1 {{'lemur.transfer' op returns its input, so tensor<2xf32> cannot become tensor<3xf32>}}
  %0 = "lemur.transfer"(%x) {device = "a"} : (tensor<2xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @scalar(%x: f32) {
  // expected-error@+1 {{'lemur.pin' op moves ranked tensors only, not f32}}
  %0 = "lemur.pin"(%x) {device = "a"} : (f32) -> f32
  return
}

// -----

func.func @no_device(%x: tensor<2xf32>) {
  // expected-error@+1 {{'lemur.pin' op needs the name of a device, such as device = "cuda"}}
  %0 = "lemur.pin"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @device_is_a_number(%x: tensor<2xf32>) {
  // expected-error@+1 {{'lemur.transfer' op needs the name of a device}}
  %0 = "lemur.transfer"(%x) {device = 3 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @barrier_changes_type(%x: tensor<2xf32>) {
  // expected-error@+1 {{'lemur.barrier' op returns its input}}
  %0 = "lemur.barrier"(%x) : (tensor<2xf32>) -> tensor<2xf16>
  return
}
