// RUN: not lemurc opt --split-input-file --verify-diagnostics %s 2>&1 | filecheck %s
// RUN: not lemurc opt --split-input-file %s 2>&1 | filecheck --check-prefix=PLAIN %s

// What is not expected is told, and what is expected and does not come too. Lines are the
// file's, not the chunk's.
// CHECK:     unexpected: {{.*}}opt-diagnostics.mlir:9:{{[0-9]+}}: error: custom op 'foo' is unknown
// PLAIN:     {{.*}}opt-diagnostics.mlir:9:{{[0-9]+}}: error: custom op 'foo' is unknown
func.func @f() {
  foo
  return
}

// -----

// CHECK:     opt-diagnostics.mlir:{{[0-9]+}}: expected error 'never' was not reported
// expected-error@+1 {{never}}
func.func @g() {
  return
}

// -----

// CHECK-NOT: unexpected
// PLAIN:     error: arguments 0 and 1 are both lemur.param
// PLAIN:     note: pass 'verify-lemur' failed
// expected-error@below {{arguments 0 and 1 are both lemur.param}}
func.func @h(%x: f32 {lemur.param = "w"}, %y: f32 {lemur.param = "w"}) {
  return
}
