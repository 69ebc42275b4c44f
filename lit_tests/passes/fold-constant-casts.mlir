// RUN: lemurc opt -p fold-constant-casts --split-input-file %s | filecheck %s

// CHECK-LABEL: func.func @epsilon
// CHECK-NOT:     f64
// CHECK:         [[EPS:%.+]] = arith.constant 9.99999997E-7 : f32
// CHECK:         arith.addf {{%.+}}, [[EPS]] : f32
// CHECK-NOT:     f64
func.func @epsilon(%x: f32) -> f32 {
  %wide = arith.constant 1.0e-6 : f64
  %eps = arith.truncf %wide : f64 to f32
  %0 = arith.addf %x, %eps : f32
  return %0 : f32
}

// -----

// A cast of a value, and a wide constant used as such, stay.
// CHECK-LABEL: func.func @values
// CHECK:         arith.constant 1.000000e-01 : f64
// CHECK:         arith.truncf
func.func @values(%x: f64) -> f32 {
  %tenth = arith.constant 1.0e-1 : f64
  %0 = arith.mulf %x, %tenth : f64
  %1 = arith.truncf %0 : f64 to f32
  return %1 : f32
}
