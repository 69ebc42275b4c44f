// acc[i][0..15] = sum over k of a[i * ROW + k * STEP] * b[k * 16 + 0..15], for i < ROWS.
//
// Six rows of two vectors fill twelve of the sixteen registers: each load of `b` serves
// six multiplications, each broadcast of `a` two. ROWS, ROW and STEP
// are constants at every call.
#pragma once

#include "avx2.h"

#define TILE_ROWS 6
#define TILE_COLUMNS 16
// Rows of `a` lie in scratch memory, at a distance that is no multiple of a page.
#define DEPTH 640
#define A_STRIDE (DEPTH + 24)

#define MULTIPLY(i)                                      \
  if (ROWS > i) {                                        \
    const __m256 s = _mm256_broadcast_ss(a + i * ROW);   \
    c[2 * i] = _mm256_fmadd_ps(s, b0, c[2 * i]);         \
    c[2 * i + 1] = _mm256_fmadd_ps(s, b1, c[2 * i + 1]); \
  }

INLINE void tile(const int ROWS, const i64 ROW, const i64 STEP, const float *a, const float *b,
                 i64 depth, float *acc) {
  __m256 c[2 * TILE_ROWS];
  for (int i = 0; i < 2 * ROWS; i++) c[i] = _mm256_setzero_ps();
#pragma clang loop unroll_count(4)
  for (i64 k = 0; k < depth; k++, a += STEP, b += TILE_COLUMNS) {
    const __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8);
    _mm_prefetch((const char *)(b + 8 * TILE_COLUMNS), _MM_HINT_T0);
    MULTIPLY(0) MULTIPLY(1) MULTIPLY(2) MULTIPLY(3) MULTIPLY(4) MULTIPLY(5)
  }
  for (int i = 0; i < 2 * ROWS; i++) _mm256_storeu_ps(acc + 8 * i, c[i]);
}

// For `rows` rows in scratch memory.
INLINE void tile_of(i64 rows, const float *a, const float *b, i64 depth, float *acc) {
  switch (rows) {
    case 1: tile(1, A_STRIDE, 1, a, b, depth, acc); break;
    case 2: tile(2, A_STRIDE, 1, a, b, depth, acc); break;
    case 3: tile(3, A_STRIDE, 1, a, b, depth, acc); break;
    case 4: tile(4, A_STRIDE, 1, a, b, depth, acc); break;
    case 5: tile(5, A_STRIDE, 1, a, b, depth, acc); break;
    default: tile(6, A_STRIDE, 1, a, b, depth, acc);
  }
}

INLINE void copy(float *to, const float *from, i64 n) {
  i64 k = 0;
  for (; k + 8 <= n; k += 8) _mm256_storeu_ps(to + k, _mm256_loadu_ps(from + k));
  for (; k < n; k++) to[k] = from[k];
}

// 0 none, 1 ReLU, 2 GELU (erf).
INLINE __m256 activate(__m256 v, i64 activation) {
  if (activation == 1) return _mm256_max_ps(_mm256_setzero_ps(), v);  // hands NaN on
  if (activation == 2) return gelu8(v);
  return v;
}
