// RUN: lemurc opt -p 'func.func(canonicalize,cse),verify-lemur,canonicalize{top-down=true}' --print-ir-after-all --timing %s 2>&1 | filecheck %s
// RUN: not lemurc opt -p plaec %s 2>&1 | filecheck --check-prefix=UNKNOWN %s
// RUN: not lemurc opt -p 'place{speed=3}' %s 2>&1 | filecheck --check-prefix=OPTION %s
// RUN: not lemurc opt -p 'func.func(place)' %s 2>&1 | filecheck --check-prefix=NESTED %s
// RUN: not lemurc opt -p 'cse,(' %s 2>&1 | filecheck --check-prefix=SYNTAX %s
// RUN: not lemurc opt -p form-stages,schedule,place %s 2>&1 | filecheck --check-prefix=FAILING %s

// CHECK:     IR Dump After func.func(canonicalize,cse)
// CHECK:     IR Dump After verify-lemur
// CHECK:     IR Dump After canonicalize{top-down=true}
// CHECK:     ms  func.func(canonicalize,cse)
// CHECK:     ms  total

// UNKNOWN: error: no pass is called 'plaec'
// UNKNOWN:   hint: did you mean 'place'?
// OPTION:  error: pass 'place' has no option 'speed'
// OPTION:    hint: its options: objective, time_limit
// NESTED:  error: 'place' works on a whole module and cannot be nested in 'func.func'
// SYNTAX:  error: missing ')' in pipeline

// FAILING: error: pass 'place' failed (passes before it: form-stages, schedule)
// FAILING:   'linalg.exp' has no 'lemur.cost'
// FAILING:   hint: reproduce with: lemurc opt -p 'form-stages,schedule,place' {{.+}}.mlirbc
module attributes {lemur.system = {devices = [{name = "a", target = "cpu"}, {name = "b", target = "cpu"}]}} {
  func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
    %e = tensor.empty() : tensor<2xf32>
    %0 = linalg.exp ins(%x : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
