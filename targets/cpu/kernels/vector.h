// Vectors as wide as the instruction set has them, in clang's notation: v + w, v * w + u
// (one fused operation), v < w.
#pragma once

#include "avx2.h"

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
