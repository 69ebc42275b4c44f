// RUN: lemurc opt -p fold-constant-casts,canonicalize --split-input-file %s | filecheck %s

// CHECK-LABEL: func.func @rounded
// CHECK-NEXT:    arith.constant 9.99999974E-6 : f32
// CHECK-NEXT:    arith.addf
func.func @rounded(%x: f32) -> f32 {
  %e = arith.constant 1.0e-05 : f64
  %0 = arith.truncf %e : f64 to f32
  %1 = arith.addf %x, %0 : f32
  return %1 : f32
}

// -----

// A value that is not constant stays double.
// CHECK-LABEL: func.func @variable
// CHECK-NEXT:    arith.truncf
func.func @variable(%x: f64) -> f32 {
  %0 = arith.truncf %x : f64 to f32
  return %0 : f32
}
