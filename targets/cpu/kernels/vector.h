// Vectors as wide as the instruction set has them, in clang's notation: v + w, v * w + u
// (one fused operation), v < w.
#pragma once

#include "gemm.h"

#ifdef __AVX512F__
#define LANES 16
#define KERNEL __attribute__((min_vector_width(512))) void
#else
#define LANES 8
#define KERNEL void
#endif

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef float vec_anywhere __attribute__((vector_size(4 * LANES), aligned(4)));

INLINE vec load(const float *from) { return *(const vec_anywhere *)from; }
INLINE void store(float *to, vec v) { *(vec_anywhere *)to = v; }
INLINE vec broadcast(float x) { return x - (vec){}; }

INLINE int all_finite(vec v) {
  const vec zero = v - v;
  return !__builtin_reduce_or(zero != zero);
}

// Of the LANES floats from row[x] on, those with 0 <= x < width; zeros for the others, which are
// not read.
INLINE vec load_inside(const float *row, i64 x, i64 width) {
#if LANES == 16
  const i64 before = x < 0 ? -x : 0, end = width - x;
  const unsigned reach = end >= LANES ? 0xffff : end <= 0 ? 0 : (1u << end) - 1;
  const unsigned mask = before >= LANES ? 0 : reach >> before << before;
  return (vec)_mm512_maskz_loadu_ps((__mmask16)mask, row + x);
#else
  const __m256i at = _mm256_add_epi32(_mm256_set1_epi32((int)x),
                                      _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  const __m256i inside = _mm256_andnot_si256(
      _mm256_cmpgt_epi32(_mm256_setzero_si256(), at),
      _mm256_cmpgt_epi32(_mm256_set1_epi32((int)width), at));
  return (vec)_mm256_maskload_ps(row + x, inside);
#endif
}

INLINE void store_first(float *to, vec v, i64 n) {
#if LANES == 16
  _mm512_mask_storeu_ps(to, (__mmask16)(n >= LANES ? 0xffff : (1u << n) - 1), (__m512)v);
#else
  _mm256_maskstore_ps(to, tail(n), (__m256)v);
#endif
}

// Every second float of two vectors.
INLINE vec evens(vec low, vec high) {
#if LANES == 16
  return __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28,
                                 30);
#else
  return __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14);
#endif
}

// activate() of gemm.h.
INLINE vec finish(vec v, i64 activation) {
#if LANES == 16
  const __m512 wide = (__m512)v;
  const __m256 low = activate(_mm512_castps512_ps256(wide), activation);
  const __m256 high = activate(_mm512_extractf32x8_ps(wide, 1), activation);
  return (vec)_mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
#else
  return (vec)activate((__m256)v, activation);
#endif
}
