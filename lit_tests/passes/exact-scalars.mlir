// RUN: lemurc opt -p exact-scalars %s | filecheck %s

// Ordered comparisons are false of NaN, whatever the two operands turn out to be.
// CHECK-LABEL: func.func @ordered
// CHECK-DAG:     [[NAN:%.+]] = arith.cmpf uno, [[X:%.+]], [[Y:%.+]] : f32
// CHECK-DAG:     [[GE:%.+]] = arith.cmpf oge, [[X]], [[Y]] : f32
// CHECK:         [[NUMBERS:%.+]] = arith.xori [[NAN]]
// CHECK:         [[R:%.+]] = arith.andi [[GE]], [[NUMBERS]]
// CHECK:         return [[R]]
func.func @ordered(%x: f32, %y: f32) -> i1 {
  %0 = arith.cmpf oge, %x, %y : f32
  return %0 : i1
}

// Unordered ones are true of it.
// CHECK-LABEL: func.func @unordered
// CHECK-DAG:     [[NAN:%.+]] = arith.cmpf uno, [[X:%.+]], [[X]] : f64
// CHECK-DAG:     [[NE:%.+]] = arith.cmpf une, [[X]], [[X]] : f64
// CHECK:         [[R:%.+]] = arith.ori [[NE]], [[NAN]]
// CHECK:         return [[R]]
func.func @unordered(%x: f64) -> i1 {
  %0 = arith.cmpf une, %x, %x : f64
  return %0 : i1
}

// CHECK-LABEL: func.func @cast
// CHECK:         [[WHOLE:%.+]] = arith.select {{%.+}}, {{%.+}}, {{%.+}} : f32
// CHECK:         arith.fptosi [[WHOLE]] : f32 to i8
func.func @cast(%x: f32) -> i8 {
  %0 = arith.fptosi %x : f32 to i8
  return %0 : i8
}

// CHECK-LABEL: func.func @round
// CHECK:         [[MINUS:%.+]] = arith.negf [[X:%.+]] : f32
// CHECK:         [[UP:%.+]] = math.roundeven [[MINUS]]
// CHECK:         [[NEGATIVE:%.+]] = arith.negf [[UP]]
// CHECK:         arith.select {{%.+}}, [[NEGATIVE]], {{%.+}} : f32
func.func @round(%x: f32) -> f32 {
  %0 = math.roundeven %x : f32
  return %0 : f32
}

// What the interpreter gets right stays.
// CHECK-LABEL: func.func @right
// CHECK-NEXT:    [[R:%.+]] = arith.cmpf olt, {{%.+}}, {{%.+}} : f32
// CHECK-NEXT:    return [[R]]
func.func @right(%x: f32, %y: f32) -> i1 {
  %0 = arith.cmpf olt, %x, %y : f32
  return %0 : i1
}
