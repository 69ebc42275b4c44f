// RUN: lemurc opt -p keep-zero-signs %s | filecheck %s

// relu as torch-mlir writes it
// CHECK-LABEL: func.func @relu
// CHECK:         [[C:%.+]] = arith.cmpf uge, [[X:%.+]], [[ZERO:%.+]] : f32
// CHECK:         arith.select [[C]], [[X]], [[ZERO]] : f32
func.func @relu(%x: f32) -> f32 {
  %zero = arith.constant 0.0 : f32
  %c = arith.cmpf ugt, %x, %zero : f32
  %y = arith.select %c, %x, %zero : f32
  return %y : f32
}

// where(x > 0, x, 0) is 0.0 for -0.0
// CHECK-LABEL: func.func @ordered
// CHECK:         arith.cmpf ogt
func.func @ordered(%x: f32) -> f32 {
  %zero = arith.constant 0.0 : f32
  %c = arith.cmpf ogt, %x, %zero : f32
  %y = arith.select %c, %x, %zero : f32
  return %y : f32
}

// CHECK-LABEL: func.func @other_bound
// CHECK:         arith.cmpf ugt
func.func @other_bound(%x: f32) -> f32 {
  %one = arith.constant 1.0 : f32
  %c = arith.cmpf ugt, %x, %one : f32
  %y = arith.select %c, %x, %one : f32
  return %y : f32
}

// The comparison is read by something else too.
// CHECK-LABEL: func.func @also_read
// CHECK:         arith.cmpf ugt
func.func @also_read(%x: f32) -> (f32, i1) {
  %zero = arith.constant 0.0 : f32
  %c = arith.cmpf ugt, %x, %zero : f32
  %y = arith.select %c, %x, %zero : f32
  return %y, %c : f32, i1
}
